/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Parts of the kernel that are bounded by functions: by a configuration, or by the analysis of the
 * kernel's image. Two programs for all functions: attached to each with a cookie, which is the
 * number of the recipe that says what to do there.
 *
 * A function's return is known by its place on the stack. So it does not matter which functions
 * call each other or themselves, whether the return of one was missed, or whether one was entered
 * before anybody looked: what was not seen to be entered changes nothing when it is left.
 */
#ifndef WEIGH_CALLS_OWN_H
#define WEIGH_CALLS_OWN_H

#include "causes.h"

#define MAX_RECIPES 4096
#define MAX_STEPS 6
#define MAX_SUMS 4
#define MAX_REMEMBERED 65536

enum recipe_does {
	RECIPE_BOUNDS = 1, /* time between entry and return is the part's */
	RECIPE_STARTS = 2, /* what is captured is remembered with its cause */
	RECIPE_ENDS = 4, /* what is captured may have been remembered: then it is done for that cause */
	RECIPE_CROSSES = 8, /* an entry counts if it comes from another part */
	RECIPE_TRIES = 16, /* weigh's own, to learn what a probe costs and where returns are */
};

/* What a capture begins with: the number of an argument, or what the function returned. */
enum capture_start {
	RETURNED = 6,
};

/* Fields one behind the other, beginning with an argument. */
struct capture {
	__u8 argument;
	__u8 steps;
	__u8 bytes; /* of what is found in the end; 0: its address is asked for */
	__u8 is_signed;
	__u32 offsets[MAX_STEPS];
};

struct sum {
	__u32 slot;
	struct capture capture;
};

struct recipe {
	__u32 does;
	__u32 part;
	__u32 rule; /* tells the values of one `later` from those of another */
	__u32 keeps;
	__u32 count_slot, time_slot;
	__u32 sums;
	__u64 hits; /* by threads that are followed */
	struct capture match;
	struct sum sum[MAX_SUMS];
};

/*
 * Where the stack is said to be at a return depends on how the kernel gets hold of returns. A trial
 * finds out: this is taken away from what is said at each.
 */
__u32 trier;
__u64 tried_frame, return_skew;

const volatile struct recipe recipe_layout;
const volatile enum recipe_does recipe_does_layout;
const volatile enum capture_start capture_start_layout;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_RECIPES);
	__type(key, __u32);
	__type(value, struct recipe);
} recipes SEC(".maps");

struct left_key {
	__u64 rule, value;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_REMEMBERED);
	__type(key, struct left_key);
	__type(value, struct cause);
} remembered SEC(".maps");

struct running {
	__u64 began;
	struct cause cause;
};

/* What runs for somebody now, by its place on the stack: it is nobody else's at that time. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, struct left_key);
	__type(value, struct running);
} runs_for SEC(".maps");

/* What a function was called with, or has returned, and where on the stack. */
struct values {
	__u64 of[8];
	__u64 frame;
};

static __always_inline void take_values(struct values *values, struct pt_regs *regs, bool returned)
{
#if defined(__TARGET_ARCH_x86)
	values->of[0] = regs->di;
	values->of[1] = regs->si;
	values->of[2] = regs->dx;
	values->of[3] = regs->cx;
	values->of[4] = regs->r8;
	values->of[5] = regs->r9;
	values->of[RETURNED] = regs->ax;
	values->of[7] = 0;
	/* The return address lies on the stack: a return takes it away. */
	values->frame = regs->sp - (returned ? sizeof(__u64) : 0);
#else
#pragma clang loop unroll(full)
	for (int i = 0; i < 6; i++)
		values->of[i] = regs->regs[i];
	values->of[RETURNED] = regs->regs[0];
	values->of[7] = 0;
	values->frame = regs->sp;
#endif
}

static __always_inline bool captured(__u64 *value, struct values *values, struct capture *capture)
{
	__u64 at = values->of[capture->argument & 7];
	__u32 bytes = capture->bytes, steps = capture->steps, unused;
	__u64 found[2] = {};

#pragma unroll
	for (int i = 0; i < MAX_STEPS; i++) {
		if (i >= steps)
			break;
		at += capture->offsets[i];
		if (i + 1 < steps && bpf_probe_read_kernel(&at, sizeof(at), (void *)at))
			return false;
	}
	*value = at;
	if (!bytes || bytes > sizeof(*value))
		return true;
	if (steps) {
		bytes &= 15;
		barrier_var(bytes); /* or the verifier does not see its bound */
		if (bpf_probe_read_kernel(found, bytes, (void *)at))
			return false;
		*value = found[0];
	}
	unused = 64 - 8 * bytes;
	*value <<= unused & 63;
	if (capture->is_signed)
		*value = (__s64)*value >> (unused & 63);
	else
		*value >>= unused & 63;
	return true;
}

static __always_inline void add_up(struct recipe *recipe, struct weigh_account *account,
				   struct values *values, bool returned)
{
	__u64 value;

#pragma unroll
	for (int i = 0; i < MAX_SUMS; i++) {
		struct sum *sum = &recipe->sum[i];

		if (i >= recipe->sums)
			break;
		if ((sum->capture.argument == RETURNED) != returned)
			continue;
		/* What is below zero is an error's number. */
		if (captured(&value, values, &sum->capture) && (__s64)value > 0)
			add(&account->own[sum->slot % WEIGH_OWN_NUMBERS], value);
	}
}

static __always_inline void go_in(struct recipe *recipe, struct values *values)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 part = recipe->part, depth;
	struct window *window;
	bool is_within;
	struct open open;

	if (part >= WEIGH_SUBSYSTEMS || !mine(&open, part))
		return;
	window = open.window;
	add(&recipe->hits, 1);
	is_within = innermost(window) == part;
	if (!is_within || !(recipe->does & RECIPE_CROSSES))
		add(&open.account->parts[part].entries, 1);
	add_up(recipe, open.account, values, false);
	depth = window->depth;
	/* Within itself, or deeper than there is room for, the time stays where it is. */
	if (depth >= MAX_DEPTH || is_within)
		return;
	split(&open, task, bpf_ktime_get_ns());
	window->inner[depth % MAX_DEPTH] = part;
	window->frames[depth % MAX_DEPTH] = values->frame;
	window->depth = depth + 1;
}

static __always_inline void go_out(struct recipe *recipe, struct values *values)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 part = recipe->part, level = MAX_DEPTH;
	__u64 frame = values->frame;
	struct window *window;
	struct open open;

	if (part >= WEIGH_SUBSYSTEMS || !mine(&open, part))
		return;
	window = open.window;
	add_up(recipe, open.account, values, true);
#pragma unroll
	for (int i = 0; i < MAX_DEPTH; i++)
		if (i < window->depth && window->frames[i] == frame && window->inner[i] == part)
			level = i;
	if (level == MAX_DEPTH)
		return;
	split(&open, task, bpf_ktime_get_ns());
	/* Whatever it has called has returned, too. */
	missed_returns += functions_above(window, level + 1);
	window->depth = level;
}

static __always_inline struct weigh_account *charged(struct cause *cause)
{
	struct cell *cell;
	__u32 index;

	if (!cause->cell)
		return cause->client ? account_of(cause) : 0;
	index = cause->cell - 1;
	cell = bpf_map_lookup_elem(&cells, &index);
	if (!cell)
		return 0;
	barrier_var(cell); /* see later_of() */
	return &cell->account;
}

/* The same of the requester of a call of the job. */
static __always_inline struct weigh_account *also_charged(struct cause *cause)
{
	return cause->cell && cause->client ? account_of(cause) : 0;
}

/* Adds to a number of what comes later, wherever that is added up; whether it is anywhere. */
static __always_inline bool charge_own(struct cause *cause, __u32 slot, __u64 amount)
{
	struct weigh_account *account = charged(cause), *also = also_charged(cause);

	slot %= WEIGH_OWN_NUMBERS;
	if (account)
		add(&account->own[slot], amount);
	if (also)
		add(&also->own[slot], amount);
	return account || also;
}

static __always_inline void remember(struct recipe *recipe, struct values *values)
{
	struct left_key key = { .rule = recipe->rule };
	struct cause cause, *before;
	struct open open;

	if (!captured(&key.value, values, &recipe->match))
		return;
	/* The earlier holder is not the present one. */
	before = bpf_map_lookup_elem(&remembered, &key);
	if (before) {
		cause = *before;
		bpf_map_delete_elem(&remembered, &key);
		if (!recipe->keeps)
			pends(&cause, -1);
	}
	if (recipe->part >= WEIGH_SUBSYSTEMS || !mine(&open, recipe->part) ||
	    !cause_of(&cause, &open))
		return;
	if (bpf_map_update_elem(&remembered, &key, &cause, BPF_ANY))
		not_kept(&cause);
	else if (!recipe->keeps)
		pends(&cause, 1);
}

/* Whether the very call that is the cause is doing it: then its time is the call's already. */
static __always_inline bool does_it_itself(struct cause *cause)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct window *window = window_of(task);

	if (!window || window->interrupted != NOT_INTERRUPTED)
		return false;
	if (!cause->cell)
		return window->client == cause->client && window->request == cause->request;
	return window->inside && window->sequence == cause->sequence && task->pid == cause->tid;
}

static __always_inline void begin_later(struct recipe *recipe, struct values *values)
{
	struct left_key key = { .rule = recipe->rule }, place = { .rule = recipe->rule };
	struct running running = {};
	struct cause *found;

	place.value = values->frame;
	if (!captured(&key.value, values, &recipe->match))
		return;
	found = bpf_map_lookup_elem(&remembered, &key);
	/* An earlier run whose return was missed is over. */
	bpf_map_delete_elem(&runs_for, &place);
	if (!found)
		return;
	running.cause = *found;
	if (!recipe->keeps) {
		bpf_map_delete_elem(&remembered, &key);
		pends(&running.cause, -1);
	}
	if (does_it_itself(&running.cause) || !charge_own(&running.cause, recipe->count_slot, 1))
		return;
	running.began = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&runs_for, &place, &running, BPF_ANY))
		not_kept(&running.cause);
}

static __always_inline void end_later(struct recipe *recipe, struct values *values)
{
	struct left_key place = { .rule = recipe->rule };
	struct running *running;
	__u64 passed;

	place.value = values->frame;
	running = bpf_map_lookup_elem(&runs_for, &place);
	if (!running)
		return;
	passed = bpf_ktime_get_ns() - running->began;
	if ((__s64)passed > 0)
		charge_own(&running->cause, recipe->time_slot, passed);
	bpf_map_delete_elem(&runs_for, &place);
}

static __always_inline struct recipe *recipe_of(struct pt_regs *regs)
{
	__u32 number = bpf_get_attach_cookie(regs);

	return bpf_map_lookup_elem(&recipes, &number);
}

static __always_inline bool is_trier(struct recipe *recipe)
{
	return recipe->does & RECIPE_TRIES && (__u32)bpf_get_current_pid_tgid() == trier;
}

static __always_inline void at_entry(struct pt_regs *regs)
{
	struct recipe *recipe = recipe_of(regs);
	struct values values;

	if (!recipe)
		return;
	take_values(&values, regs, false);
	if (is_trier(recipe))
		tried_frame = values.frame;
	if (recipe->does & RECIPE_BOUNDS)
		go_in(recipe, &values);
	if (recipe->does & RECIPE_STARTS)
		remember(recipe, &values);
	if (recipe->does & RECIPE_ENDS)
		begin_later(recipe, &values);
}

static __always_inline void at_return(struct pt_regs *regs)
{
	struct recipe *recipe = recipe_of(regs);
	struct values values;

	if (!recipe)
		return;
	take_values(&values, regs, true);
	if (is_trier(recipe))
		return_skew = values.frame - tried_frame;
	values.frame -= return_skew;
	if (recipe->does & RECIPE_ENDS)
		end_later(recipe, &values);
	if (recipe->does & RECIPE_BOUNDS)
		go_out(recipe, &values);
}

SEC("?kprobe")
int own__enter(struct pt_regs *regs)
{
	at_entry(regs);
	return 0;
}

SEC("?kretprobe")
int own__leave(struct pt_regs *regs)
{
	at_return(regs);
	return 0;
}

/* The same for kernels that attach a program to many functions at once. */
SEC("?kprobe.multi")
int own__enter_many(struct pt_regs *regs)
{
	at_entry(regs);
	return 0;
}

SEC("?kretprobe.multi")
int own__leave_many(struct pt_regs *regs)
{
	at_return(regs);
	return 0;
}

#endif
