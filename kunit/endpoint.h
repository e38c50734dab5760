/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the two halves of the module "endpoint" share: its driver makes sessions,
 * each a connection to one peer.
 */
#ifndef _UCB_KUNIT_ENDPOINT_H
#define _UCB_KUNIT_ENDPOINT_H

struct device;
struct session;
struct sockaddr;
struct ucb_pool;

/* Give a buffer of @pool a key, wait for a peer in the background; or ERR_PTR. */
struct session *session_listen(struct device *dev, struct ucb_pool *pool,
			       struct sockaddr *addr);
/* Until the peer is connected */
int session_connected(struct session *s);
/* Until the peer has gone. Return: how it was served. The session is gone. */
int session_wait(struct session *s);
/* To a program that listens; or ERR_PTR. */
struct session *session_connect(struct device *dev, struct ucb_pool *pool,
				struct sockaddr *addr);
/* READ the program's region, WRITE it. Return: how it went. The session is gone. */
int session_work(struct session *s);
/* Return: how the session went. It is gone. */
int session_end(struct session *s);

#endif /* _UCB_KUNIT_ENDPOINT_H */
