/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A command of the guest's, for suites.
 */
#ifndef _UCB_KUNIT_SHELL_H
#define _UCB_KUNIT_SHELL_H

#include <linux/umh.h>

/* Return: the command's status as wait(2) gives it, or an errno. */
static inline int shell(const char *command)
{
	char *argv[4] = { "/bin/sh", "-c", (char *)command, NULL };
	char *envp[2] = { "PATH=/bin:/sbin:/usr/bin:/usr/sbin", NULL };

	return call_usermodehelper(argv[0], argv, envp, UMH_WAIT_PROC);
}

#endif /* _UCB_KUNIT_SHELL_H */
