/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the kernel's end of the guest test "interop" and the programs at the
 * other end agree on: the private data of a connection, as librpma's programs
 * lay it out; messages; and the bytes that a buffer is full of.
 */
#ifndef _UCB_KUNIT_INTEROP_H
#define _UCB_KUNIT_INTEROP_H

#define INTEROP_SIZE		65536	/* bytes in a buffer, on either side */

/* private data: u16 where the application's own starts, two u8, the descriptors */
#define INTEROP_PRIVATE_OFFSET	0
#define INTEROP_PRIVATE_MR	2	/* bytes of the memory descriptor */
#define INTEROP_PRIVATE_PCFG	3	/* bytes of the peer configuration's */
#define INTEROP_PRIVATE_DESC	4
#define INTEROP_PRIVATE_LEN	28

/*
 * A message: a u8 of what, the seed of the bytes that it is about, and the
 * descriptor of the sender's region. The answer is a message, too.
 */
#define INTEROP_MSG_OP		0
#define INTEROP_MSG_SEED	1
#define INTEROP_MSG_DESC	2
#define INTEROP_MSG_LEN		23

enum {
	INTEROP_CHECK = 1,	/* does your buffer have these bytes? */
	INTEROP_FILL,		/* fill your buffer with these */
	INTEROP_PULL,		/* read my region: these bytes? */
	INTEROP_PUSH,		/* write these into my region */
	INTEROP_YES,
	INTEROP_NO,
};

/* What a listener's buffer has when it is connected to, and what it is to get */
#define INTEROP_SEED_FIRST	11
#define INTEROP_SEED_LAST	12

static inline unsigned char interop_byte(unsigned int *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 24;
}

static inline void interop_fill(void *mem, unsigned int seed)
{
	unsigned char *p = mem;
	unsigned int i;

	for (i = 0; i < INTEROP_SIZE; i++)
		p[i] = interop_byte(&seed);
}

static inline int interop_equal(const void *mem, unsigned int seed)
{
	const unsigned char *p = mem;
	unsigned int i;

	for (i = 0; i < INTEROP_SIZE; i++)
		if (p[i] != interop_byte(&seed))
			return 0;
	return 1;
}

#endif /* _UCB_KUNIT_INTEROP_H */
