/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Nodes of call trees: given out from the profile's section, and found again in a table of all threads. Only its own thread
 * looks for a node and enters it, so that no key comes twice.
 */
#include "region.h"
#include <string.h>

/* A word of the table: parent, name and node in 16 bits each, kind above them. */
#define FIELD 16
#define FIELD_MASK ((1ULL << FIELD) - 1)

static uint64_t table_key(uint64_t parent, uint64_t kind, uint64_t name)
{
	return kind << 3 * FIELD | parent << 2 * FIELD | name << FIELD;
}

static uint64_t first_entry(uint64_t key)
{
	return key * 0x9E3779B97F4A7C15ULL >> 32;
}

static uint64_t find(uint64_t key)
{
	for (uint64_t i = first_entry(key);; i++) {
		_Atomic uint64_t *entry = &weigh_regions.private->index[i % INDEX_ENTRIES];
		uint64_t word = atomic_load_explicit(entry, memory_order_relaxed);

		if (!word)
			return NO_NUMBER;
		if ((word & ~FIELD_MASK) == key)
			return word & FIELD_MASK;
	}
}

static void enter(uint64_t key, uint64_t node)
{
	for (uint64_t i = first_entry(key);; i++) {
		_Atomic uint64_t *entry = &weigh_regions.private->index[i % INDEX_ENTRIES];
		uint64_t none = 0;

		if (atomic_compare_exchange_strong(entry, &none, key | node))
			return;
	}
}

/* Names that a thread may have in its cache already, without an account. */
static _Atomic bool used[PROFILE_NAMES_RECORDS];

bool weigh_name_is_used(uint64_t name)
{
	return atomic_load(&used[name]);
}

/* Whether calls of it may not go the short way. Who binds an account looks the other way round. */
static bool is_special(const uint64_t *node)
{
	uint64_t name = node[NODE_AT_NAME];

	atomic_store(&used[name], true);
	return node[NODE_AT_BRAKED] || __atomic_load_n(&weigh_name_flags[name], __ATOMIC_SEQ_CST) & NAME_BOUND;
}

/* There is no least call yet: each will be less. */
void weigh_node_clear(uint64_t *node)
{
	for (int i = 0; i < 2; i++)
		node[NODE_AT_VERSIONS + i * VERSION_LENGTH + VERSION_AT_MIN] = UINT64_MAX;
}

static uint64_t new_node(struct region_thread *t, uint64_t parent, uint64_t kind, uint64_t name)
{
	uint64_t number = weigh_profile_take(PROFILE_NODES), *node;

	if (number == NO_NUMBER)
		return number;
	node = node_numbered(number);
	weigh_node_clear(node);
	node[NODE_AT_PARENT] = parent;
	node[NODE_AT_NAME] = name;
	node[NODE_AT_THREAD] = t->number;
	store(&node[NODE_AT_KIND], kind);
	enter(table_key(parent, kind, name), number);
	weigh_regions.private->has_children[parent] = 1;
	return number;
}

/* The thread's own (other): it has its record ahead, and is there for readers from its first call on. */
static uint64_t other_node(struct region_thread *t)
{
	store(&node_numbered(t->other)[NODE_AT_KIND], PROFILE_REGION);
	return t->other;
}

/* Finds a child of a node, or makes it. */
const struct child *weigh_node_find(struct region_thread *t, uint64_t parent, uint64_t kind, uint64_t name)
{
	uint64_t checked = weigh_name_checked(name), number, key = child_key(parent, kind, name);
	struct child *entry = child_entry(t, key);

	if (checked == OTHER_NAME && parent == t->root && kind == PROFILE_REGION)
		number = other_node(t);
	else
		number = find(table_key(parent, kind, checked));
	if (number == NO_NUMBER)
		number = new_node(t, parent, kind, checked);
	entry->key = key;
	if (number == NO_NUMBER) {
		/* Each such call is counted: the entry is not found again. */
		profile_add(PROFILE_AT_NODES_LOST, 1);
		number = other_node(t);
		entry->key = 0;
	}
	entry->number = number;
	entry->node = node_numbered(number);
	entry->is_special = is_special(entry->node);
	return entry;
}

/* The older version of a node, made a copy of the newer one, for an epoch that has just begun. */
uint64_t *weigh_version_turn(uint64_t *node, uint64_t epoch)
{
	uint64_t *older = node + NODE_AT_VERSIONS, *newer = older + VERSION_LENGTH;

	if (older[VERSION_AT_EPOCH] > newer[VERSION_AT_EPOCH]) {
		newer = older;
		older += VERSION_LENGTH;
	}
	memcpy(older + 1, newer + 1, (VERSION_LENGTH - 1) * sizeof(*older));
	older[VERSION_AT_EPOCH] = epoch;
	return older;
}
