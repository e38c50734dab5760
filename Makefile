# SPDX-License-Identifier: GPL-2.0
# The modules are described in Kbuild; this file only names the commands.

KDIR   ?= /lib/modules/$(shell uname -r)/build
KVER   ?= 6.12
ACCEL  ?= auto
DEBUG  ?= 0
SUITE  ?=
SLICE  ?=
export KVER ACCEL DEBUG SUITE SLICE

# A script, and its guest, does not outlive a make that is killed.
RUN := setpriv --pdeathsig TERM

.PHONY: modules demo check soak bench lint install dkms clean help
modules:
	@[ -e "$(KDIR)/Makefile" ] || { echo "no kernel headers in $(KDIR):" \
		"install linux-headers-$$(uname -r), or set KDIR" >&2; exit 1; }
	$(MAKE) -C $(KDIR) M=$(CURDIR) modules

demo:
	@$(RUN) scripts/demo

check:
	@$(RUN) scripts/check

soak:
	@$(RUN) scripts/soak

bench:
	@$(RUN) scripts/bench

lint:
	@$(RUN) scripts/lint

install: modules
	$(MAKE) -C $(KDIR) M=$(CURDIR) modules_install

dkms:
	dkms add $(CURDIR)
	dkms install ucb/$(shell sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' dkms.conf)

clean:
	$(RM) -r build
	$(MAKE) -s -C tools clean
	find . -path ./.git -prune -o -type f \( -name '*.o' -o -name '*.ko' \
		-o -name '*.mod' -o -name '*.mod.c' -o -name '.*.cmd' -o -name '.*.d' \
		-o -name Module.symvers -o -name modules.order \) -exec $(RM) {} +

help:
	@echo 'modules  build the modules against KDIR (default: the running kernel)'
	@echo 'demo     a file from a USB device to a remote peer, in an emulated machine'
	@echo 'check    all test suites in emulated machines; SUITE=name runs one'
	@echo 'soak     long tests at full count, in slices of minutes; SLICE=name runs one'
	@echo 'bench    instructions of an allocation and free, beside what they replace'
	@echo 'lint     checkpatch, sparse, W=1, kernel-doc, shellcheck'
	@echo 'install  install the modules built; dkms: the same through dkms'
	@echo 'clean    remove what was built here (cached kernels stay)'
	@echo 'KVER=6.12 (the kernel series), ACCEL=auto|tcg|kvm'
