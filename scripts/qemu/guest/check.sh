# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# The guest tests with converted drivers: sourced by scripts/check after
# suites.sh, whose variables and functions these use.
# shellcheck disable=SC2154 # top, build, out, kdir, mods, params, usb: those

# guest_test NAME KIND PAIRS: boot scripts/qemu/guest/KIND-init, judge it and add
# its counts. PAIRS are for lifetime.
guest_test()
{
	local name=$1 kind=$2 append="ucb_pairs=$3" status=0 ko ko_name files=()
	local dir=$top/scripts/qemu/guest limit=600 machine p f s

	[ "$kind" != lifetime ] || limit=3000
	mapfile -t machine < <(machine iommu | tr ' ' '\n')

	say "guest $name"
	job "$top/scripts/convert" "$kdir" "$mods" "$build/convert" \
		> "$out/convert.list"
	echo "$mods/drivers/pool/ucb.ko" >> "$out/convert.list"
	echo "$mods/kunit/leaky.ko" >> "$out/convert.list"
	while read -r ko; do
		# by the name that the kernel has it under
		ko_name=${ko##*/}
		files+=(--file "$ko:/ko/${ko_name//-/_}")
	done < "$out/convert.list"
	make -s -C "$top/tools" O="$out/tools" "$out"/tools/ucb_{usbtest,play,serial}
	head -c 192000 /dev/urandom > "$out/tune.pcm"
	rm -f "$out/$name".*
	"$top/scripts/qemu/initramfs" "$out/$name.cpio.gz" \
		--init "$dir/$kind-init" --kmod-dir "$kdir/mods" \
		--kmods "dummy_hcd libcomposite usb_f_ss_lb" "${files[@]}" \
		--bin "$out/tools/ucb_usbtest" --bin "$out/tools/ucb_play" --bin "$out/tools/ucb_serial" \
		--file "$dir/lib.sh:/guest/lib.sh" \
		--file "$dir/rigs.sh:/guest/rigs.sh" \
		--file "$out/tune.pcm:/tune.pcm"
	append+=" ucb_stick=$(head -c 4M "$out/stick.img" | sha256sum | cut -d' ' -f1)"
	job "$top/scripts/qemu/run" --kernel "$kdir/arch/x86/boot/bzImage" \
		--initrd "$out/$name.cpio.gz" --log "$out/$name.log" \
		--timeout "${TIMEOUT:-$limit}" --smp 2 --mem "$mem" \
		--append "$params log_buf_len=4M intel_iommu=on $append" -- \
		"${machine[@]}" "${usb[@]}" \
		-audiodev "wav,id=wav,path=$out/$name.wav,out.mixing-engine=off" \
		-device usb-audio,bus=xhci.0,audiodev=wav,buffer=1048576 \
		-device usb-tablet,bus=xhci.0 || status=$?
	[ $status -lt 128 ] || exit $status
	judge "$name" $status || say "guest $name failed; see $out/$name.log"
	read -r p f s < "$out/$name.counts"
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	# the others play a tone only, and are unplugged meanwhile
	[ "$kind" = convert ] || return 0
	if python3 "$dir/played.py" "$out/$name.wav" "$out/tune.pcm"; then
		result ok "$name: the sound card played the tune, byte for byte"
	else
		result "not ok" "$name: the sound card played the tune, byte for byte"
	fi
}
