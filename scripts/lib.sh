# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Shared by the scripts here; sourced, not run. Progress goes to stderr, so
# that a script's stdout can be its answer.

set -euo pipefail

# What the caller's shell or make has set must not steer a build or a parser.
unset CDPATH ARCH CROSS_COMPILE KBUILD_OUTPUT KBUILD_EXTMOD O MAKEFLAGS MFLAGS
export LC_ALL=C.UTF-8 PATH=$PATH:/usr/sbin:/sbin

say()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
}

die()
{
	say "$*"
	exit 1
}

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${XDG_CACHE_HOME:-${HOME:?is not set}/.cache}/ucb
[[ $cache = /* ]] || cache=$PWD/$cache
# make cannot build in such a folder
for dir in "$top" "$cache"; do
	case $dir in
	*[![:alnum:]/._+@~=-]*)
		die "the path '$dir' has a character that make cannot take" ;;
	esac
done

# The kernel, and the compiler of the modules. What is not of the usual ones
# stands apart in build/.
export KVER=${KVER:-6.12} COMPILER=${COMPILER:-gcc}
build=$top/build
[ "$KVER" = 6.12 ] || build+=/$KVER
case $COMPILER in
gcc)	;;
clang)	build+=/clang ;;
*)	die "COMPILER=$COMPILER: the compilers are gcc and clang" ;;
esac

# job COMMAND...: run it so that a signal to this script, even SIGKILL, ends it
# at once, with all that it started. Scripts that use it trap end_job on EXIT.
job_pid=
job()
{
	local status=0

	setsid setpriv --pdeathsig TERM "$@" < /dev/null &
	job_pid=$!
	wait "$job_pid" || status=$?
	job_pid=
	return $status
}

end_job()
{
	# a second signal does not cut this short
	trap '' INT TERM HUP
	[ -n "$job_pid" ] || return 0
	if kill -- "-$job_pid" 2> /dev/null; then
		wait "$job_pid" || return 0
	fi
}

# A /dev/kvm on a processor without the extension hangs instead of failing.
can_kvm()
{
	grep -qwE 'vmx|svm' /proc/cpuinfo && [ -w /dev/kvm ]
}

# pick_accel: what ACCEL asks for, kvm or tcg, or end with one line
pick_accel()
{
	case ${ACCEL:-auto} in
	auto)	if can_kvm; then echo kvm; else echo tcg; fi ;;
	kvm)	can_kvm || die "ACCEL=kvm: this machine has no usable KVM"
		echo kvm ;;
	tcg)	echo tcg ;;
	*)	die "ACCEL is auto, tcg or kvm" ;;
	esac
}

# out_dir DIR: make it, and be sure that it can be written
out_dir()
{
	{ mkdir -p "$1" && [ -w "$1" ]; } 2> /dev/null
}

# need_space DIR MEGABYTES: end with one line if DIR's disk has less
need_space()
{
	local free

	free=$(df -Pm "$1" | awk 'NR == 2 { print $4 }')
	[ "$free" -ge "$2" ] ||
		die "needs $2 MB free under $1, there are $free"
}

# sync_tree DIR: bring DIR, a copy of the sources to build in, up to date. What
# has changed is new, however old it is in the tree, and the rest keeps its time,
# so that make builds the one and not the other.
sync_tree()
{
	local dir=$1 file

	mkdir -p "$dir"
	(cd "$top" && find . \( -path ./build -o -path ./.git \) -prune -o \
		-type f \( -name '*.[ch]' -o -name Kbuild -o -name Makefile \) \
		! -name '*.mod.c' -print) | sort > "$dir/.files"
	(cd "$dir" && find . -type f \( -name '*.[ch]' -o -name Kbuild \
		-o -name Makefile \) ! -name '*.mod.c' -print) | sort |
		comm -23 - "$dir/.files" |
	while read -r file; do
		rm "$dir/$file"
	done
	while read -r file; do
		cmp -s "$top/$file" "$dir/$file" ||
			install -D -m 644 "$top/$file" "$dir/$file"
	done < "$dir/.files"
}

# kbuild KDIR DIR [make arguments]: make in DIR against KDIR. The kernels are
# built by gcc: to clang, what its own Kconfig would have answered is told here.
kbuild()
{
	local kdir=$1 dir=$2 args=()

	shift 2
	if [ "$COMPILER" = clang ]; then
		args=(CC=clang-19 CONFIG_CC_IS_GCC='' CONFIG_GCC_VERSION=0
			CONFIG_CC_IS_CLANG=y CONFIG_CLANG_VERSION=190107
			CONFIG_CC_IMPLICIT_FALLTHROUGH=-Wimplicit-fallthrough
			CONFIG_FTRACE_MCOUNT_USE_CC='' CONFIG_UBSAN_BOUNDS_STRICT=''
			CONFIG_UBSAN_ARRAY_BOUNDS=y DEBIAN_KERNEL_NO_CC_VERSION_CHECK=y
			KCFLAGS="-include $top/scripts/clang.h")
	fi
	# no types for BPF: those need the whole kernel, which headers do not have
	job make -s -C "$kdir" M="$dir" -j"$(nproc)" "${args[@]}" \
		CONFIG_DEBUG_INFO_BTF_MODULES='' "$@" >&2
}

# build_modules KDIR DIR [make arguments]: build the modules in a copy of the
# sources. One kernel, one DIR; the tree itself stays clean.
build_modules()
{
	local kdir=$1 dir=$2

	shift 2
	mkdir -p "$dir"
	dir=$(cd "$dir" && pwd)
	sync_tree "$dir"
	kbuild "$kdir" "$dir" "$@" modules
}
