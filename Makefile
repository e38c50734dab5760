# SPDX-License-Identifier: GPL-2.0
# The modules are described in Kbuild; this file only names the commands.

KDIR   ?= /lib/modules/$(shell uname -r)/build
KVER   ?= 6.12
ACCEL  ?= auto
SUITE  ?=
SLICE  ?=
prefix ?= /usr/local
DRIVERS_ONLY ?= y
VERSION = $(shell sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' dkms.conf)
export KDIR KVER ACCEL SUITE SLICE prefix
export DESTDIR INSTALL_MOD_PATH

ifeq ($(filter $(KVER),6.1 6.12 7.3),)
$(error KVER=$(KVER): the kernels are 6.1, 6.12 and 7.3)
endif

need_kdir = $(if $(wildcard $(KDIR)/Makefile),,$(error no kernel headers in \
	$(KDIR): install linux-headers-$(shell uname -r), or set KDIR))

# A script, and its guest, does not outlive a make that is killed.
RUN := setpriv --pdeathsig TERM

.PHONY: modules demo check builds check-matrix soak bench lint docs check-install \
	install uninstall dkms clean help
modules:
	$(need_kdir)
	$(MAKE) -C $(KDIR) M=$(CURDIR) DRIVERS_ONLY=$(DRIVERS_ONLY) modules

demo:
	@$(RUN) scripts/demo

check:
	@$(RUN) scripts/check

builds:
	@$(RUN) scripts/builds

check-matrix:
	@$(RUN) scripts/check-matrix

soak:
	@$(RUN) scripts/soak

bench:
	@$(RUN) scripts/bench

lint:
	@$(RUN) scripts/lint

docs:
	@$(RUN) scripts/docs

check-install:
	@$(RUN) scripts/check-install

install: DRIVERS_ONLY = y
install: modules
	@$(RUN) scripts/install

uninstall:
	$(need_kdir)
	@$(RUN) scripts/install --remove

dkms:
	@$(RUN) scripts/install --sources
	dkms add ucb/$(VERSION)
	dkms install ucb/$(VERSION)

clean:
	$(RM) -r build
	$(MAKE) -s -C tools clean
	find . -path ./.git -prune -o -type f \( -name '*.o' -o -name '*.ko' \
		-o -name '*.mod' -o -name '*.mod.c' -o -name '.*.cmd' -o -name '.*.d' \
		-o -name Module.symvers -o -name modules.order \) -exec $(RM) {} +

help:
	@echo 'modules        build the modules against KDIR (default: the running kernel)'
	@echo 'demo           a file from a USB device to a remote peer, in an emulated machine'
	@echo 'check          all test suites in emulated machines; SUITE=name runs one'
	@echo 'builds         the modules by gcc and clang against the stock kernels, no warning'
	@echo 'check-matrix   builds, demo and check on each kernel, in one table; takes hours'
	@echo 'check-install  install, build on what is installed, dkms; all in build/'
	@echo 'soak           long tests at full count, in slices of minutes; SLICE=name runs one'
	@echo 'bench          instructions of an allocation and free, beside what they replace'
	@echo 'lint           checkpatch, sparse, W=1, shellcheck and more, and the pages against the tree'
	@echo 'docs           the pages in HTML and the manual pages, in build/docs/'
	@echo 'install        install modules, headers, manual pages (prefix=/usr/local, DESTDIR=)'
	@echo 'uninstall      take away what install has put'
	@echo 'dkms           have dkms build and install the modules, also for later kernels'
	@echo 'clean          remove what was built here (cached kernels stay)'
	@echo 'help           this list'
	@echo 'KVER=6.1|6.12|7.3 (the kernel), COMPILER=gcc|clang (of the modules)'
	@echo 'ACCEL=auto|tcg|kvm, DRIVERS_ONLY=n (and the samples)'
