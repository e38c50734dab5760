# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# The guest test "interop": sourced by scripts/check after suites.sh, whose
# variables and functions this uses.
# shellcheck disable=SC2154 # top, out, kdir, mods, mem, params, parser, usb: those

# build_e1000: a network card for two guests that are joined. The debug kernel was
# built without one; the driver is built from the kernel's source, unchanged.
build_e1000()
{
	local dir=drivers/net/ethernet/intel/e1000

	mkdir -p "$out/e1000"
	cp -u "$kdir/source/$dir"/{Makefile,*.[ch]} "$out/e1000/"
	job make -s -C "$kdir" M="$out/e1000" CONFIG_E1000=m modules >&2
}

# interop_initrd KO...: what the guests have; the modules are more for it
interop_initrd()
{
	local dir=$top/scripts/qemu/guest args=() file

	"$top/scripts/deps" rdma rpma
	dpkg-query -W -f '# interop: ${binary:Package} ${Version}\n' \
		librpma0 librdmacm1 libibverbs1 ibverbs-providers
	for file; do
		args+=(--ko "$file")
	done
	for file in drivers/pool/ucb drivers/rdma/ucb_rdma kunit/endpoint; do
		args+=(--ko "$mods/$file.ko")
	done
	for file in ucb_rpma ucb_verbs; do
		make -s -C "$top/tools" O="$out/tools" "$out/tools/$file" >&2
		args+=(--bin "$out/tools/$file")
	done
	for file in lib.sh rigs.sh interop-agent; do
		args+=(--file "$dir/$file:/guest/$file")
	done
	# loaded by name, so no program's libraries show them
	for file in /usr/lib/*/libibverbs/lib{rxe,siw}-rdmav*.so \
		/etc/libibverbs.d/{rxe,siw}.driver; do
		args+=(--file "$file:$file")
	done
	"$top/scripts/qemu/initramfs" "$out/interop.cpio.gz" \
		--init "$dir/interop-init" --kmod-dir "$kdir/mods" \
		--kmods "dummy_hcd libcomposite usb_f_ss_lb rdma_rxe siw rdma_cm ib_uverbs rdma_ucm" \
		--bin rdma --bin ip "${args[@]}"
}

# interop_boot NAME ROLE QEMU-ARGUMENTS...: the command that boots this guest
interop_boot()
{
	local name=$1 role=$2

	shift 2
	# a socket's path may not be long: the guests run in its folder
	mapfile -t boot_command < <(printf '%s\n' env -C "$out" "$top/scripts/qemu/run" \
		--kernel "$kdir/arch/x86/boot/bzImage" \
		--initrd "$out/interop.cpio.gz" --log "$out/$name.log" \
		--timeout "${TIMEOUT:-1800}" --smp 2 --mem "$mem" \
		--append "$params intel_iommu=on ucb_role=$role ucb_rounds=${ROUNDS:-1}" --
		machine iommu | tr ' ' '\n'; printf '%s\n' "$@")
}

# interop_judge NAME STATUS
interop_judge()
{
	local p f s

	[ "$2" -lt 128 ] || exit "$2"
	judge "$1" "$2" || say "guest $1 failed; see $out/$1.log"
	read -r p f s < "$out/$1.counts"
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# joined NUMBER SERVER: QEMU's arguments for the two cards of a guest
joined()
{
	local i server=,server=on

	[ "$2" = yes ] || server=,server=off
	for i in 1 2; do
		printf '%s\n' -netdev "stream,id=n$i,addr.type=unix,addr.path=net$i$server" \
			-device "e1000,netdev=n$i,mac=02:00:00:00:00:$i$1,addr=0x1$i"
	done
}

# interop_alone some|all: one guest with both ends
interop_alone()
{
	local status=0

	say "guest interop"
	rm -f "$out/interop".{log,ktap,counts}*
	interop_boot interop "$1" "${usb[@]}"
	job "${boot_command[@]}" || status=$?
	interop_judge interop $status
}

# interop_joined: two guests with an end each
interop_joined()
{
	local status=0 other=0 first cards

	say "guests interop_kernel and interop_programs"
	rm -f "$out"/interop_{kernel,programs}.* "$out"/net[12]
	mapfile -t cards < <(joined 1 yes)
	interop_boot interop_kernel kernel "${usb[@]}" "${cards[@]}"
	setpriv --pdeathsig TERM "${boot_command[@]}" &
	first=$!
	until [ -S "$out/net1" ] && [ -S "$out/net2" ]; do
		kill -0 $first || die "guest interop_kernel did not start"
		sleep 0.1
	done
	mapfile -t cards < <(joined 2 no)
	interop_boot interop_programs programs "${cards[@]}"
	job "${boot_command[@]}" || status=$?
	wait $first || other=$?
	interop_judge interop_kernel $other
	interop_judge interop_programs $status
}

# interop: everything
interop()
{
	build_e1000 || die "the kernel's e1000 does not build"
	interop_initrd "$out/e1000/e1000.ko"
	interop_alone all
	interop_joined
}
