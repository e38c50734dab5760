/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions that are not exported, for suites.
 */
#ifndef _UCB_KUNIT_SYMBOL_H
#define _UCB_KUNIT_SYMBOL_H

#include <linux/err.h>
#include <linux/kprobes.h>

/* Return: where the function is, or ERR_PTR; a probe finds it. */
static inline void *symbol_find(const char *name)
{
	struct kprobe look = { .symbol_name = name };
	int err = register_kprobe(&look);

	if (err)
		return ERR_PTR(err);
	unregister_kprobe(&look);
	return look.addr;
}

#endif /* _UCB_KUNIT_SYMBOL_H */
