# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
# Shared by the inits of the guest tests with converted drivers; sourced. The
# console carries the kernel's log and each step's name, the second serial port
# the verdict, as check-init has it.

mount -t proc proc /proc
mount -t devtmpfs dev /dev
mount -t sysfs sys /sys
mount -t debugfs debugfs /sys/kernel/debug
mount -t configfs configfs /sys/kernel/config
exec 3> /dev/ttyS1
# insmod sleeps for as long as a probe runs, and emulation is slow.
echo 300 > /proc/sys/kernel/hung_task_timeout_secs

# uptime: in now, with two decimals, and now_s, without
uptime()
{
	read -r now _ < /proc/uptime
	now_s=${now%.*}
}

# step NAME COMMAND...
step()
{
	name=$1
	shift
	uptime
	echo "guest: $now $name"
	if "$@"; then
		echo "@step ok $name" >&3
	else
		echo "@step fail $name $*" >&3
		uptime
		echo "guest: $now FAIL $name: $*"
		describe
	fi
}

# within SECONDS COMMAND...: look until it holds
within()
{
	uptime
	end=$((now_s + $1))
	shift
	until "$@"; do
		uptime
		[ "$now_s" -lt $end ] || return 1
		usleep 50000
	done
}

past()
{
	uptime
	[ "$now_s" -gt "$1" ]
}

fails()
{
	! "$@"
}

# The kernel log from here on; told by a mark in it, for the buffer wraps.
mark_log()
{
	uptime
	log_mark="guest: mark $now $1"
	echo "$log_mark" > /dev/kmsg
}

# since_mark TEXT: the lines that have it
since_mark()
{
	dmesg | awk -v mark="$log_mark" -v text="$1" '
		on && index($0, text) { print }
		index($0, mark) { on = 1 }'
}

log_has()
{
	[ -n "$(since_mark "$1")" ]
}

# Two scans: a first look can find what only the next one clears. An object is
# reported when it is 5 s old, so wait until the youngest can be.
no_leaks()
{
	uptime
	freed=$now_s
	echo scan > /sys/kernel/debug/kmemleak
	within 60 past $((freed + 5))
	echo scan > /sys/kernel/debug/kmemleak
	cat /sys/kernel/debug/kmemleak
	[ -z "$(cat /sys/kernel/debug/kmemleak)" ]
}

# Nothing but out-of-tree (bit 12), unsigned (13) and test (18).
taint_ok()
{
	# a sysctl cannot be read byte by byte, as the shell does
	taint=$(cat /proc/sys/kernel/tainted)
	echo "guest: taint $taint"
	[ $((taint & ~(1 << 12 | 1 << 13 | 1 << 18))) = 0 ]
}

finish()
{
	# shellcheck disable=SC2154 # from the kernel's command line
	echo "$ucb_token" >&3
	exec 3>&-
	sync
	poweroff -f
}
