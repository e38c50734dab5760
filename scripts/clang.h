/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a kernel that was configured for gcc says in its headers, and for clang
 * would not have said: per-CPU variables in gcc's address spaces lose their
 * segment when clang compiles them.
 */
#undef CONFIG_CC_HAS_NAMED_AS
#undef CONFIG_USE_X86_SEG_SUPPORT
