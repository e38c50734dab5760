// SPDX-License-Identifier: GPL-2.0
/*
 * ucb_play DEVICE FILE: play a file of 16 bit stereo samples at 48 kHz on a PCM
 * device of the kernel's, once and to its last sample.
 * ucb_play DEVICE: play a tone until the device is gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <sound/asound.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define RATE		48000
#define CHANNELS	2
#define FRAME_BYTES	(CHANNELS * 2)
#define PERIOD_FRAMES	1200
#define PATIENCE_S	120

static void set_mask(struct snd_pcm_hw_params *p, int param, unsigned int bit)
{
	struct snd_mask *mask = &p->masks[param - SNDRV_PCM_HW_PARAM_FIRST_MASK];

	memset(mask, 0, sizeof(*mask));
	mask->bits[bit / 32] = 1U << (bit % 32);
}

static void set_interval(struct snd_pcm_hw_params *p, int param,
			 unsigned int value)
{
	struct snd_interval *i;

	i = &p->intervals[param - SNDRV_PCM_HW_PARAM_FIRST_INTERVAL];
	i->min = value;
	i->max = value;
	i->integer = 1;
}

/* Without a length, the kernel chooses the longest buffer that it can. */
static int set_up(int fd, unsigned int buffer_frames)
{
	struct snd_pcm_hw_params hw = { .rmask = ~0U };
	struct snd_pcm_sw_params sw = {
		.period_step = 1,
		.avail_min = PERIOD_FRAMES,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(hw.masks); i++)
		memset(&hw.masks[i], 0xff, sizeof(hw.masks[i]));
	for (i = 0; i < ARRAY_SIZE(hw.intervals); i++)
		hw.intervals[i].max = ~0U;
	set_mask(&hw, SNDRV_PCM_HW_PARAM_ACCESS,
		 SNDRV_PCM_ACCESS_RW_INTERLEAVED);
	set_mask(&hw, SNDRV_PCM_HW_PARAM_FORMAT, SNDRV_PCM_FORMAT_S16_LE);
	set_interval(&hw, SNDRV_PCM_HW_PARAM_CHANNELS, CHANNELS);
	set_interval(&hw, SNDRV_PCM_HW_PARAM_RATE, RATE);
	set_interval(&hw, SNDRV_PCM_HW_PARAM_PERIOD_SIZE, PERIOD_FRAMES);
	if (buffer_frames)
		set_interval(&hw, SNDRV_PCM_HW_PARAM_BUFFER_SIZE,
			     buffer_frames);
	if (ioctl(fd, SNDRV_PCM_IOCTL_HW_PARAMS, &hw) < 0)
		return -1;
	i = SNDRV_PCM_HW_PARAM_BUFFER_SIZE - SNDRV_PCM_HW_PARAM_FIRST_INTERVAL;
	sw.start_threshold = hw.intervals[i].max;
	sw.stop_threshold = hw.intervals[i].max;
	sw.boundary = hw.intervals[i].max;
	while (sw.boundary * 2 <= 0x3fffffff)
		sw.boundary *= 2;
	if (ioctl(fd, SNDRV_PCM_IOCTL_SW_PARAMS, &sw) < 0)
		return -1;
	return ioctl(fd, SNDRV_PCM_IOCTL_PREPARE);
}

static int put(int fd, void *samples, size_t bytes)
{
	struct snd_xferi xfer = {
		.buf = samples,
		.frames = bytes / FRAME_BYTES,
	};

	return ioctl(fd, SNDRV_PCM_IOCTL_WRITEI_FRAMES, &xfer);
}

/*
 * Until all has been played and the device stops. Draining would do, but gives
 * up when a slow machine hears nothing of the device for a moment.
 */
static int wait_played(int fd)
{
	struct snd_pcm_status status;
	int i;

	for (i = 0; i < PATIENCE_S * 10; i++) {
		if (ioctl(fd, SNDRV_PCM_IOCTL_STATUS, &status) < 0)
			return -1;
		if (status.state == SNDRV_PCM_STATE_XRUN)
			return 0;
		if (status.state != SNDRV_PCM_STATE_RUNNING) {
			errno = EIO;
			return -1;
		}
		usleep(100000);
	}
	errno = ETIMEDOUT;
	return -1;
}

/*
 * All of it is in the device's buffer before the first is played, with half a
 * second of silence behind it, so that a slow machine cannot run dry.
 */
static int play_file(int fd, const char *name)
{
	static char samples[512 * 1024];
	ssize_t got, bytes = 0;
	int file;

	file = open(name, O_RDONLY);
	if (file < 0)
		return -1;
	while ((got = read(file, samples + bytes,
			   sizeof(samples) / 2 - bytes)) > 0)
		bytes += got;
	if (got < 0)
		return -1;
	close(file);
	bytes += RATE / 2 * FRAME_BYTES;
	if (set_up(fd, 0) < 0 || put(fd, samples, bytes) < 0 ||
	    ioctl(fd, SNDRV_PCM_IOCTL_START) < 0)
		return -1;
	return wait_played(fd);
}

static int play_tone(int fd)
{
	static short samples[PERIOD_FRAMES * CHANNELS];
	unsigned long periods = 0;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(samples); i++)
		samples[i] = i / CHANNELS % 100 < 50 ? 8000 : -8000;
	if (set_up(fd, 4 * PERIOD_FRAMES) < 0)
		return -1;
	for (;;) {
		if (put(fd, samples, sizeof(samples)) == 0) {
			if (++periods == 8) {
				puts("playing");
				fflush(stdout);
			}
			continue;
		}
		/*
		 * Only a slow machine: the kernel heard nothing of the device
		 * for a moment, and goes on; or the device ran dry.
		 */
		if (errno == EIO || (errno == EPIPE &&
				     ioctl(fd, SNDRV_PCM_IOCTL_PREPARE) == 0))
			continue;
		printf("%lu periods, then %s\n", periods, strerror(errno));
		return periods ? 0 : -1;
	}
}

int main(int argc, char **argv)
{
	int fd, ret;

	if (argc != 2 && argc != 3) {
		fputs("usage: ucb_play DEVICE [FILE]\n", stderr);
		return 2;
	}
	fd = open(argv[1], O_RDWR);
	if (fd < 0) {
		fprintf(stderr, "ucb_play: %s: %s\n", argv[1], strerror(errno));
		return 2;
	}
	ret = argc == 3 ? play_file(fd, argv[2]) : play_tone(fd);
	if (ret < 0) {
		fprintf(stderr, "ucb_play: %s\n", strerror(errno));
		return 1;
	}
	return 0;
}
