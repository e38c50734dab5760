# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
# shellcheck disable=SC2034,SC2154 # some are for the inits; ucb_stick is from the
# kernel command line; worker_RIG is set by eval
# The devices that the converted drivers work on, their work, and the ways in
# which they go; sourced.
#
# zero   0525:a4a0, a gadget that is a source and a sink, for usbtest
# acm    0525:a4a7, a serial gadget, for cdc-acm
# stick  46f4:0001, QEMU's on xHCI, for usb-storage
# sound  46f4:0002, QEMU's on xHCI, for snd-usb-audio
# tablet 0627:0001, QEMU's on xHCI, for yurex, which is told so
#
# A fork costs tens of milliseconds in an emulated debug kernel: what is looked
# at again and again is read by the shell itself, and answers go to variables.

gadgets=/sys/kernel/config/usb_gadget
devices=/sys/bus/usb/devices
drivers=/sys/bus/usb/drivers
pools=/sys/kernel/debug/ucb
rigs="zero acm stick sound tablet"

# rig_facts RIG: usb_id, driver, and for a gadget udc and function
rig_facts()
{
	case $1 in
	zero)	usb_id=0525:a4a0 driver=usbtest udc=dummy_udc.0
		function=SourceSink ;;
	acm)	usb_id=0525:a4a7 driver=cdc_acm udc=dummy_udc.1
		function=acm ;;
	stick)	usb_id=46f4:0001 driver=usb-storage ;;
	sound)	usb_id=46f4:0002 driver=snd-usb-audio ;;
	tablet)	usb_id=0627:0001 driver=yurex ;;
	esac
}

# find_dev RIG: its name in dev, and rig_facts
find_dev()
{
	rig_facts "$1"
	for dev in "$devices"/*; do
		vendor='' product=''
		{
			read -r vendor < "$dev/idVendor"
			read -r product < "$dev/idProduct"
		} 2> /dev/null
		dev=${dev##*/}
		[ "$vendor:$product" != "$usb_id" ] || return 0
	done
	return 1
}

# bound RIG: its driver has it
bound()
{
	find_dev "$1" && [ -e "$drivers/$driver/$dev:1.0" ]
}

# plug RIG: make its gadget where that is missing, and bind it
plug()
{
	rig_facts "$1"
	g=$gadgets/$1
	if [ ! -d "$g" ]; then
		mkdir "$g" || return 1
		echo "0x${usb_id%:*}" > "$g/idVendor"
		echo "0x${usb_id#*:}" > "$g/idProduct"
		mkdir "$g/strings/0x409" "$g/configs/c.1" \
			"$g/functions/$function.0" || return 1
		echo "$1" > "$g/strings/0x409/serialnumber"
		ln -s "$g/functions/$function.0" "$g/configs/c.1/"
		[ "$1" != acm ] || hold_tty
	fi
	echo "$udc" > "$g/UDC"
}

# The gadget's tty is kept open as long as there is one. Once it was closed while
# it was throttled, with each of its requests full, nothing in the kernel's
# u_serial makes it read again, and whoever opens it next would wait for ever. Its
# last close also waits 15 s for what no driver takes.
hold_tty()
{
	exec 5< /dev/ttyGS0
	sleep 1000000 <&5 &
	holder=$!
	exec 5<&-
}

# unplug RIG: false if it was not plugged in. The gadget goes with it: bound a
# second time, the kernel's SourceSink function loses its descriptors. What the
# gadget's tty still holds keeps acm's.
unplug()
{
	rig_facts "$1"
	g=$gadgets/$1
	[ -d "$g" ] || return 1
	if echo > "$g/UDC"; then was=0; else was=1; fi
	[ "$1" = acm ] || unmake_gadget "$1"
	return $was
}

unmake_gadget()
{
	rig_facts "$1"
	g=$gadgets/$1
	[ ! -d "$g" ] || {
		[ "$1" != acm ] || { kill "$holder" && wait "$holder"; }
		rm "$g/configs/c.1/$function.0" && rmdir "$g/configs/c.1" \
			"$g/functions/$function.0" "$g/strings/0x409" "$g"
	}
}

# find_xhci: its folder in xhci
find_xhci()
{
	for xhci in /sys/bus/pci/devices/*; do
		read -r class < "$xhci/class"
		[ "$class" != 0x0c0330 ] || return 0
	done
	return 1
}

unbind_device()
{
	find_dev "$1" && echo "$dev" > "$drivers/usb/unbind"
}

bind_device()
{
	find_dev "$1" && echo "$dev" > "$drivers/usb/bind"
}

# From each of its interfaces: what snd-usb-audio has claimed beside the first it
# keeps, and takes for another's when it comes back.
unbind_driver()
{
	find_dev "$1" || return 1
	set -- "$drivers/$driver/$dev":*
	[ -e "$1" ] || return 1
	for interface; do
		[ ! -e "$interface" ] ||
			echo "${interface##*/}" > "$drivers/$driver/unbind" || return 1
	done
}

bind_driver()
{
	find_dev "$1" && echo "$dev:1.0" > "$drivers/$driver/bind"
}

# What the drivers hold of the pools' buffers is told by who allocated them.
# Idle: cdc-acm has 16 for reading, 16 for writing and one more; yurex and
# usb-storage have what they always have; usbtest takes its own when it works;
# snd-usb-audio keeps what it has once played with. Nothing else may be out.
all_keep()
{
	awk '
		/\[cdc_acm\]$/		{ acm++ }
		/\[yurex\]$/		{ tablet++ }
		/\[usb_storage\]$/	{ stick++ }
		/\[snd_usb_audio\]$/	{ sound++ }
		/^live /		{ live += $2 }
		END {
			exit !(acm == 33 && tablet == 2 && stick == 1 &&
			       sound <= 13 && live == 36 + sound)
		}' "$pools"/*/buffers "$pools"/*/stats
}

# held RIG: prints how many its driver has
held()
{
	rig_facts "$1"
	set -- "$pools"/*/buffers
	[ -e "$1" ] || set -- /dev/null
	awk -v by="[$driver]" '
		BEGIN { gsub("-", "_", by) }
		index($0, by) { n++ }
		END { print n + 0 }' "$@" 2> /dev/null
}

holds()
{
	[ "$(held "$1")" = "$2" ]
}

# ours: what ucb.ko wrote into the log since the mark
ours()
{
	since_mark 'ucb: '
}

silent()
{
	[ -z "$(ours)" ]
}

# leaked SIZE CALLER: how many such buffers the log since the mark says were
leaked()
{
	ours | awk -v size=" buffers of $1 bytes allocated by $2+" '
		at = index($0, size) {
			$0 = substr($0, 1, at - 1)
			n += $NF
		}
		END { print n + 0 }'
}

# What a failed step leaves to be looked at, in the log.
describe()
{
	for rig in $rigs; do
		find_dev "$rig"
		echo "guest: $rig: $dev, $(held "$rig") buffers"
	done
	ours
	cat /tmp/*.out "$pools"/*/stats
	ps
}

loaded()
{
	[ -d "/sys/module/$1" ]
}

load_ucb()
{
	loaded ucb || insmod /ko/ucb.ko
}

needed="soundcore snd snd_hwdep snd_rawmidi snd_pcm u_serial usb_f_acm"
converted="usbtest yurex cdc_acm usb_storage snd_usbmidi_lib snd_usb_audio"

# They are not installed, so the order is written down.
load_all()
{
	for ko in $1; do
		loaded "$ko" || insmod "/ko/$ko.ko" || return 1
	done
}

unload_all()
{
	reversed=
	for ko in $1; do
		reversed="$ko $reversed"
	done
	for ko in $reversed; do
		! loaded "$ko" || rmmod "$ko" || return 1
	done
}

load_converted()
{
	fresh=1
	! loaded yurex || fresh=0
	load_all "$converted" || return 1
	[ $fresh = 0 ] || echo 0627 0001 > "$drivers/yurex/new_id"
}

load_dummy()
{
	loaded dummy_hcd || modprobe dummy_hcd is_super_speed=1 num=2
}

set_up()
{
	load_ucb && load_dummy && modprobe libcomposite && modprobe usb_f_ss_lb &&
		load_all "$needed" && plug zero && plug acm && load_converted
}

# All that was loaded and made goes, what others use last. Some is gone already.
tear_down()
{
	for rig in zero acm; do
		unplug $rig 2> /dev/null
	done
	unload_all "$converted" && unmake_gadget acm && unload_all "$needed" &&
		unload_all "dummy_hcd libcomposite usb_f_ss_lb" &&
		rmmod ucb && [ ! -e "$pools" ]
}

# find_node RIG: that of usbfs, in node
find_node()
{
	find_dev "$1" || return 1
	read -r bus < "$devices/$dev/busnum"
	read -r number < "$devices/$dev/devnum"
	node=$(printf '/dev/bus/usb/%03d/%03d' "$bus" "$number")
}

# find_pcm: the card's only stream; an older card's node goes with its last user
find_pcm()
{
	for pcm in /dev/snd/pcmC*D0p; do
		[ ! -c "$pcm" ] || return 0
	done
	return 1
}

# carry FROM TO BYTES: a file of random bytes through the serial gadget
carry()
{
	within 60 test -c /dev/ttyACM0 || return 1
	head -c "$3" /dev/urandom > /tmp/sent
	ucb_serial carry "$1" "$2" /tmp/sent /tmp/arrived &&
		[ "$(sha256sum < /tmp/sent)" = "$(sha256sum < /tmp/arrived)" ]
}

# The disk's node is there before the disk is. What was read is forgotten.
opens_stick()
{
	blockdev --flushbufs /dev/sda 2> /dev/null
}

# Again and again; what it has started ends with it.
read_stick()
{
	trap 'kill $dd; wait $dd; exit' TERM
	while :; do
		dd if=/dev/sda of=/dev/null bs=64k &
		dd=$!
		wait $dd && blockdev --flushbufs /dev/sda || exit
	done > /dev/null 2>&1
}

# Work that lasts until its device goes. start RIG returns when it is under way.
start()
{
	rm -f "/tmp/$1.out"
	case $1 in
	zero)
		# 32 control URBs, submitted again as they complete. Bulk would
		# do, but SourceSink loses the request that completes just as
		# its endpoint is shut down, and that is a leak.
		find_node zero || return 1
		ucb_usbtest "$node" 10 4 0 0 32 > /tmp/zero.out 2>&1 &
		;;
	acm)
		within 60 test -c /dev/ttyACM0 || return 1
		ucb_serial stream /dev/ttyACM0 /dev/ttyGS0 > /tmp/acm.out 2>&1 &
		;;
	stick)
		within 60 opens_stick || return 1
		read -r before _ < /sys/block/sda/stat
		read_stick &
		;;
	sound)
		within 60 find_pcm || return 1
		ucb_play "$pcm" > /tmp/sound.out 2>&1 &
		;;
	tablet)
		[ -c /dev/yurex0 ] || return 1
		exec 4< /dev/yurex0
		return
		;;
	esac
	eval "worker_$1=\$!"
	within 120 "busy_$1"
}

# Some of the control transfers have no data and so no buffer.
busy_zero()
{
	[ "$(held zero)" -ge 16 ]
}

busy_acm()
{
	grep -qs streaming /tmp/acm.out
}

busy_stick()
{
	read -r now _ < /sys/block/sda/stat
	[ "$now" -gt $((before + 4)) ]
}

busy_sound()
{
	grep -qs playing /tmp/sound.out
}

# over RIG: its work has ended; a zombie's status says so
over()
{
	eval "pid=\$worker_$1"
	[ -d "/proc/$pid" ] || return 0
	read -r _ _ state _ < "/proc/$pid/stat" && [ "$state" = Z ]
}

# stop RIG: end what is still at work
stop()
{
	if [ "$1" = tablet ]; then
		exec 4<&-
	else
		over "$1" || kill "$pid"
		within 120 over "$1"
	fi
}

# works RIG: a piece of work, the whole way
works()
{
	case $1 in
	zero)	find_node zero && ucb_usbtest "$node" > /tmp/zero.ktap ;;
	acm)	carry /dev/ttyACM0 /dev/ttyGS0 4096 &&
			carry /dev/ttyGS0 /dev/ttyACM0 4096 ;;
	stick)	within 60 opens_stick &&
			[ "$(dd if=/dev/sda bs=64k count=64 2> /dev/null |
				sha256sum)" = "$ucb_stick  -" ] ;;
	sound)	within 60 find_pcm && ucb_play "$pcm" /tune.pcm ;;
	tablet)	[ -n "$(cat /dev/yurex0)" ] ;;
	esac
}

# answers RIG: as short a piece as will do
answers()
{
	case $1 in
	zero)	find_node zero && ucb_usbtest "$node" 27 1 4096 0 32 1 &&
			ucb_usbtest "$node" 2 5 65536 0 0 1 ;;
	sound)	start sound && stop sound ;;
	*)	works "$1" ;;
	esac
}

usbtest_suite()
{
	works zero
	status=$?
	{
		echo "@suite usbtest"
		cat /tmp/zero.ktap
		echo "@end"
	} >&3
	return $status
}
