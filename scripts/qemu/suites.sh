# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# What make check and make soak share: building the modules for the KUnit
# kernel, booting guests that run suites, and judging them. Sourced after
# lib.sh; the caller sets out, the folder for results.
# shellcheck disable=SC2154 # top, build, out

trap end_job EXIT
trap 'say interrupted; exit 130' INT
trap 'say interrupted; exit 143' TERM HUP

# prepared: where prepare has put what; sets kdir, mods and parser
prepared()
{
	kdir=$(cat "$out/kernel")
	mods=$build/kunit
	parser=$(readlink -f "$kdir/source")/tools/testing/kunit
}

# prepare: the kernel, the modules, a stick's contents
prepare()
{
	pick_accel > /dev/null
	out_dir "$out" || die "cannot write to $out"
	exec 9> "$out/lock"
	flock -n 9 || die "another ${0##*/} runs in this tree"
	"$top/scripts/deps" build kernel qemu
	need_space "$out" 500
	job "$top/scripts/kernel" kunit > "$out/kernel"
	prepared

	say "building the modules"
	build_modules "$kdir" "$mods" || die "the modules do not build"
	head -c 16M /dev/urandom > "$out/stick.img"
}

# products: the modules under test, in the order of loading
products()
{
	local ko

	for ko in "$mods/drivers/pool/ucb.ko" "$mods/drivers/rdma/ucb_rdma.ko"; do
		[ ! -e "$ko" ] || echo "$ko"
	done
}

passed=0 failed=0 skipped=0

# result ok|not\ ok NAME: count a test of the harness itself
result()
{
	echo "$1 harness $2"
	if [ "$1" = ok ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
	fi
}

# Guests: direct and iommu, as the middle word of the arguments says. q35 for
# all: the older machine's interrupt routing is a loop in AML that an emulated
# debug kernel gives up on, twice, after 30 s.
machine()
{
	case $1 in
	iommu)	echo -machine q35,kernel-irqchip=split
		echo -device intel-iommu,intremap=off ;;
	*)	echo -machine q35 ;;
	esac
}

# Grace periods are waited for a lot, in emulation for long: expedited, they are
# shorter for those who wait and no gentler to those who use what is freed.
# With pages of five levels, an interrupt while the features of the boot processor are
# looked at a second time has KASAN take 7.3's own memory for wild.
params="printk.time=1 rcupdate.rcu_expedited=1 no5lvl"
mem=2048

# boot NAME MACHINE KOS... -- APPEND [qemu arguments]
boot()
{
	local name=$1 kind=$2 append names='' args=() machine

	shift 2
	# one that a suite loads, and the init does not
	args=(--ko "$mods/kunit/tenant.ko")
	while [ "$1" != -- ]; do
		args+=(--ko "$1")
		names=$names,$(basename "$1" .ko)
		shift
	done
	append=$2
	shift 2
	[ "$kind" != iommu ] || append="intel_iommu=on $append"
	mapfile -t machine < <(machine "$kind" | tr ' ' '\n')
	rm -f "$out/$name".*
	"$top/scripts/qemu/initramfs" "$out/$name.cpio.gz" \
		--init "$top/scripts/qemu/check-init" --kmod-dir "$kdir/mods" \
		--kmods "kunit dummy_hcd libcomposite usb_f_ss_lb rdma_rxe siw rdma_cm" \
		--bin rdma \
		"${args[@]}"
	job "$top/scripts/qemu/run" --kernel "$kdir/arch/x86/boot/bzImage" \
		--initrd "$out/$name.cpio.gz" --log "$out/$name.log" \
		--timeout "${TIMEOUT:-1200}" --smp 2 --mem "$mem" \
		--append "$params ucb_mode=$kind ucb_kos=${names#,} $append" \
		-- "${machine[@]}" "$@"
}

# judge NAME STATUS
judge()
{
	python3 "$top/scripts/qemu/judge.py" "$1" "$out/$1.log" "$2" \
		"$out/$1.ktap" "$out/$1.counts" "$parser"
}

# A guest with USB: an xHCI controller and a stick with media in it.
usb=(-device "qemu-xhci,id=xhci"
	-drive "if=none,id=stick,format=raw,snapshot=on,file=$out/stick.img"
	-device "usb-storage,bus=xhci.0,drive=stick")

# What it also has for the suites: endpoints of the other two kinds.
periodic=(-device "usb-tablet,bus=xhci.0"
	-audiodev "none,id=silence" -device "usb-audio,bus=xhci.0,audiodev=silence")

# guest NAME MACHINE APPEND KOS...: run the suites there and add its counts
guest()
{
	local name=$1 kind=$2 append=$3 status=0 p f s

	shift 3
	say "guest $name"
	boot "$name" "$kind" "$@" -- "$append" "${usb[@]}" "${periodic[@]}" ||
		status=$?
	[ $status -lt 128 ] || exit $status
	judge "$name" $status || say "guest $name failed; see $out/$name.log"
	read -r p f s < "$out/$name.counts"
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# summary: the last line; its status is that of the whole
summary()
{
	echo "$passed passed, $failed failed, $skipped skipped"
	[ $failed = 0 ] && [ $passed -gt 0 ]
}
