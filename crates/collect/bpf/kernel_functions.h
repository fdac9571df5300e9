/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The kernel's own functions, by number: src/loading/kernel_functions.rs puts them in when a program is loaded. By name
 * libbpf would search all of the kernel's types for each.
 */
#ifndef WEIGH_KERNEL_FUNCTIONS_H
#define WEIGH_KERNEL_FUNCTIONS_H

#define KERNEL_FUNCTION(number) ((void *)(0x57000000 + (number)))

#endif
