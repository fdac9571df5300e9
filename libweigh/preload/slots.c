/*
 * Processes' places in the shared file: how one is taken, whose it is, and how far its process has come.
 *
 * Changes what stands there; takes none where all are taken, or the file cannot be mapped.
 *
 * A slot is a process's as long as that lives: it, and nobody else, writes there as it likes. A process
 * that knows of another's may come too late: that one has ended, weigh has given the slot back, and it is
 * another process's, of the next generation. So it changes a number only if it is still what only that
 * process's can be.
 */
#include "shim.h"

struct slot nowhere;
struct slot *self = &nowhere;
struct known known;

static void begin_life(void)
{
	uint32_t alive = ++shared_head->alive, peak = shared_head->alive_peak;

	while (alive > peak && !atomic_compare_exchange_weak(&shared_head->alive_peak, &peak, alive))
		;
}

void end_life(void)
{
	shared_head->alive--;
}

/* What stands in the list of PIDs. */
static uint64_t listed(uint32_t generation, uint32_t pid)
{
	return (uint64_t)generation << 32 | pid;
}

void set_pid(struct slot *slot, uint32_t pid)
{
	uint64_t life = slot->life;

	while (!atomic_compare_exchange_weak(&slot->life, &life,
					     life_of(generation_of(life), pid, state_of(life))))
		;
	if (known.is_nested)
		flag(slot, FLAG_NESTED);
	/* A process that is alone has been entered by its maker. */
	if (all_mapped)
		all_mapped->pids[index_of(slot)] = listed(generation_of(life), pid);
}

void set_state(struct slot *slot, uint32_t state)
{
	uint64_t life = slot->life;

	while (!atomic_compare_exchange_weak(&slot->life, &life,
					     life_of(generation_of(life), pid_of(life), state)))
		;
	/* One thread has said the last, and another one executes a program. */
	if (state_of(life) == STATE_ENDED)
		begin_life();
}

/*
 * There is a process for the slot that was set aside. Its maker and it itself say so, in any order,
 * and each may be killed, or held up, before any of these lines: the one who comes first is the one who
 * counts it.
 */
void enter(struct slot *slot, uint32_t generation, uint32_t pid, uint32_t state)
{
	uint64_t untold = UNTOLD | generation, nobody = listed(generation, 0);
	uint64_t life = life_of(generation, 0, STATE_SPAWNING);

	/* Not before the process is there: an older one may have had its PID. */
	atomic_compare_exchange_strong(&slot->started_ns, &untold, now_ns());
	if (atomic_compare_exchange_strong(&slot->life, &life, life_of(generation, pid, state)))
		begin_life();
	else if (generation_of(life) == generation)
		pid = pid_of(life);
	else
		return;
	if (all_mapped)
		atomic_compare_exchange_strong(&all_mapped->pids[index_of(slot)], &nobody,
					       listed(generation, pid));
}

/* The same of a slot that the process itself has claimed. */
void begin_in(struct slot *slot, uint32_t pid)
{
	set_pid(slot, pid);
	set_state(slot, STATE_RUNNING);
	begin_life();
}

/* It is nobody's, and becomes the next process's. */
static struct slot *made_ready(struct shared *all, uint32_t index, uint32_t state)
{
	struct slot *slot = &all->slots[index];
	uint32_t generation = generation_of(slot->life);

	slot->next_free = 0;
	slot->started_ns = slot->ended_ns = slot->wait_status = UNTOLD | generation;
	all->pids[index] = listed(generation, 0);
	slot->life = life_of(generation, 0, state);
	return slot;
}

/* Whether the file has room for the slot; weigh makes some ahead, and here it is made where that is used up. */
static bool has_room(struct shared *all, uint32_t index)
{
	uint32_t room = shared_head->room;

	while (index >= room) {
		if (room > SLOTS - ROOM_STEP ||
		    !make_room(&all->slots[room], ROOM_STEP * sizeof *all->slots) ||
		    !make_room((void *)&all->pids[room], ROOM_STEP * sizeof *all->pids))
			return false;
		if (atomic_compare_exchange_strong(&shared_head->room, &room, room + ROOM_STEP))
			room += ROOM_STEP;
	}
	return true;
}

/*
 * Takes a slot out of the list of free ones, else a new one; none if all are taken, or the file has no room
 * for more.
 */
struct slot *claim(uint32_t state)
{
	struct shared *all = whole();
	uint64_t free = shared_head->free;

	if (!all) {
		shared_head->refused = 1;
		return NULL;
	}
	while ((uint32_t)free && (uint32_t)free <= SLOTS) {
		struct slot *slot = &all->slots[(uint32_t)free - 1];
		uint64_t next = ((free >> 32) + 1) << 32 | slot->next_free;

		if (atomic_compare_exchange_weak(&shared_head->free, &free, next))
			return made_ready(all, slot - all->slots, state);
	}
	uint32_t used = shared_head->used;
	do {
		if (used >= SLOTS || !has_room(all, used)) {
			shared_head->refused = 1;
			return NULL;
		}
	} while (!atomic_compare_exchange_weak(&shared_head->used, &used, used + 1));
	return made_ready(all, used, state);
}

/* Only for one that nobody has heard of yet. */
void give_back(struct slot *slot)
{
	uint64_t free = shared_head->free, mine;
	uint32_t generation = (generation_of(slot->life) + 1) & ((1u << GENERATION_BITS) - 1);

	memset((void *)slot, 0, sizeof *slot);
	slot->life = life_of(generation, 0, 0);
	do {
		slot->next_free = (uint32_t)free;
		mine = ((free >> 32) + 1) << 32 | (index_of(slot) + 1);
	} while (!atomic_compare_exchange_weak(&shared_head->free, &free, mine));
}

struct slot *slot_of(uint32_t pid, uint64_t *life)
{
	struct shared *all = whole();
	uint32_t used = shared_head->used;

	if (!all)
		return NULL;
	if (used > SLOTS)
		used = SLOTS;
	const uint64_t *pids = (const uint64_t *)all->pids;
	for (uint32_t i = 0; i < used; i++) {
		if (LIKELY((uint32_t)pids[i] != pid))
			continue;
		*life = all->slots[i].life;
		if (pid_of(*life) == pid && state_of(*life) < STATE_ENDED)
			return &all->slots[i];
	}
	return NULL;
}
