/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Which calls are about files, by what they do, and where their arguments are.
 */
#ifndef WEIGH_IO_KINDS_H
#define WEIGH_IO_KINDS_H

#include "types.h"
#include "call_kinds.h"
#include "../compatible.h"

#define MAX_CALL_NUMBER 512

#if defined(__TARGET_ARCH_x86)
#define ARGUMENT_1(regs) ((regs)->di)
#define ARGUMENT_2(regs) ((regs)->si)
#define ARGUMENT_3(regs) ((regs)->dx)
#define ARGUMENT_4(regs) BPF_CORE_READ((struct pt_regs___io *)(regs), r10)
#define ARGUMENT_5(regs) ((regs)->r8)
#define ARGUMENT_6(regs) ((regs)->r9)
#define TRUNCATE_NUMBER 76
#define FALLOCATE_NUMBER 285
#define IOCTL_NUMBER 16
#define PWRITEV2_NUMBER 328
#else
#define ARGUMENT_1(regs) ((regs)->regs[0])
#define ARGUMENT_2(regs) ((regs)->regs[1])
#define ARGUMENT_3(regs) ((regs)->regs[2])
#define ARGUMENT_4(regs) ((regs)->regs[3])
#define ARGUMENT_5(regs) ((regs)->regs[4])
#define ARGUMENT_6(regs) ((regs)->regs[5])
#define TRUNCATE_NUMBER 45
#define FALLOCATE_NUMBER 47
#define IOCTL_NUMBER 29
#define PWRITEV2_NUMBER 287
#endif

const volatile __u8 calls[MAX_CALL_NUMBER];
const volatile enum io_call call_layout;

static __always_inline bool is_write(__u32 call)
{
	return call == CALL_WRITE || call == CALL_PWRITE || call == CALL_WRITEV ||
	       call == CALL_PWRITEV || call == CALL_SEND || call == CALL_SEND_MANY ||
	       call == CALL_VMSPLICE;
}

/* The kernel's own accounting of I/O leaves out what these move, and no tracepoint tells of it. */
static __always_inline bool is_uncounted(__u32 call)
{
	return call == CALL_SPLICE || call == CALL_TEE || call == CALL_VMSPLICE ||
	       call == CALL_AIO_SUBMIT;
}

#endif
