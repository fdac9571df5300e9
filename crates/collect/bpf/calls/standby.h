/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Programs that every packet of the machine passes, and that are attached only while they have something to
 * see: those at a device's driver (`__driver_`), and that where packets come in (`__arrival_`). What shows that
 * one is needed, or is not, is noticed by programs that run anyway; user space is woken then, and attaches it
 * or lets it go (standby.rs).
 */
#ifndef WEIGH_CALLS_STANDBY_H
#define WEIGH_CALLS_STANDBY_H

#include "account.h"

struct standby {
	/* By user space. */
	__u32 drivers_away; /* nobody looks at drivers */
	__u32 arrivals_seen; /* somebody looks at packets that come in */
	/* By the programs. */
	__u32 has_driven; /* a packet of a call was handed to a driver */
	__u32 without; /* packets of calls before that one, to a device that has none */
	__u32 many_without;
	__u64 not_driven; /* packets of calls that were handed to a driver, with nobody looking */
	__u64 together; /* packets of a connection with others behind them, with nobody looking */
};

struct standby standby;

#define IFF_LOOPBACK 8

/* The loopback device has none: a sender there has received, too, before it is over. */
static __always_inline bool has_driver(struct net_device *device)
{
	return !(device->flags & IFF_LOOPBACK);
}

/* After so many packets without, drivers are let go. */
#define MANY_WITHOUT 1000

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} attention SEC(".maps");

/* What is to be seen is in `standby`. */
static __always_inline void wake_standby(void)
{
	__u64 nothing = 0;

	bpf_ringbuf_output(&attention, &nothing, sizeof(nothing), BPF_RB_FORCE_WAKEUP);
}

/* A packet of a call goes to a device without. By two CPUs at once one may get lost: nothing depends on it. */
static __always_inline void has_no_driver(void)
{
	if (standby.has_driven || standby.many_without || ++standby.without != MANY_WITHOUT)
		return;
	standby.many_without = true;
	wake_standby();
}

/* A packet of a call goes to a device that has a driver. */
static __always_inline void goes_to_driver(struct open *open)
{
	if (!standby.has_driven)
		standby.has_driven = true;
	if (!standby.drivers_away)
		return;
	__sync_fetch_and_or(&open->account->unmeasured, BIT(WEIGH_NET));
	if (!add(&standby.not_driven, 1))
		wake_standby();
}

static __always_inline void came_together(void)
{
	if (!add(&standby.together, 1))
		wake_standby();
}

#endif
