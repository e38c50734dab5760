/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of the capture sample share. */
#ifndef _CAPTURE_H
#define _CAPTURE_H

#include <linux/completion.h>
#include <linux/kref.h>
#include <linux/ktime.h>
#include <linux/miscdevice.h>
#include <linux/mutex.h>
#include <linux/sizes.h>
#include <linux/socket.h>
#include <linux/spinlock.h>
#include <linux/usb.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include <ucb/pool.h>
#include <ucb/rdma.h>

#define CAPTURE_BUF_SIZE	SZ_64K
#define CAPTURE_DEPTH		16	/* bulk IN URBs in flight */
#define CAPTURE_USB_TIMEOUT_MS	10000

enum capture_state {
	CAPTURE_IDLE,
	CAPTURE_FILLING,
	CAPTURE_FILLED,
	CAPTURE_STARTING,
	CAPTURE_LISTENING,
	CAPTURE_DONE,
	CAPTURE_FAILED,
};

/* One buffer with its bytes and, while a peer is served, its key. */
struct capture_slot {
	struct ucb_buf *buf;
	struct ucb_mr *mr;
	u32 len;
};

struct capture_in {
	struct capture *cap;
	struct urb *urb;
	struct ucb_buf *buf;
};

/*
 * @io is held over every change of @state and over every start of work, never
 * over an access to user memory and never over a wait that @gone does not end.
 * @lock covers what a URB's completion changes: @slots, @nr, @bytes, @error,
 * @stopping and @filled.
 */
struct capture {
	struct kref ref;
	struct usb_device *udev;
	struct usb_interface *intf;
	struct ucb_pool *pool;
	struct miscdevice data;
	struct miscdevice ctl;
	int id;
	char data_name[24];
	char ctl_name[24];
	bool bot;
	unsigned int in_pipe;
	unsigned int out_pipe;
	unsigned int out_maxp;

	struct mutex io;		/* see above */
	wait_queue_head_t wait;
	enum capture_state state;
	bool gone;
	struct work_struct fill_work;
	struct work_struct serve_work;

	spinlock_t lock;		/* see above */
	struct capture_slot *slots;
	unsigned int max;
	unsigned int nr;
	u64 bytes;
	int error;
	bool stopping;
	ktime_t started;
	ktime_t filled;

	/* loopback */
	struct capture_in in[CAPTURE_DEPTH];
	struct usb_anchor out;
	unsigned int sent;
	u64 sent_bytes;

	/* bulk-only storage */
	u64 want;
	u32 tag;
	struct urb *urb;
	struct completion urb_done;
	void *cmd;

	/* server */
	struct sockaddr_storage addr;

	/* report of the last run */
	char controller[24];
	const char *kind;
	dma_addr_t first_dma;
	u32 first_key;
	unsigned int registered;
	unsigned int deregistered;
	unsigned int freed;
	unsigned int buffers;
};

extern struct workqueue_struct *capture_wq;

void capture_put(struct capture *cap);
void capture_drop_buffers(struct capture *cap);
int capture_make_nodes(struct capture *cap);
void capture_remove_nodes(struct capture *cap);

void capture_fail(struct capture *cap, int err);
int capture_keep(struct capture *cap, struct ucb_buf *buf, u32 len);
bool capture_over(struct capture *cap);

int capture_loop_init(struct capture *cap);
void capture_loop_free(struct capture *cap);
int capture_loop_start(struct capture *cap);
int capture_loop_send(struct capture *cap, struct urb *urb);
struct urb *capture_loop_urb(struct capture *cap, void *mem, size_t len);
int capture_loop_finish(struct capture *cap);
void capture_loop_stop(struct capture *cap);

int capture_bot_init(struct capture *cap);
void capture_bot_free(struct capture *cap);
int capture_bot_fill(struct capture *cap);

int capture_serve(struct capture *cap, unsigned int timeout_s,
		  void (*listening)(struct capture *cap));

#endif /* _CAPTURE_H */
