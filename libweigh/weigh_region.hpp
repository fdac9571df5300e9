// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Regions for C++: guards that end what they have begun, also when an exception passes.
//
//	void step(std::uint64_t i)
//	{
//		static const weigh::Name solve("solve");
//		weigh::Region region(solve);       // to the end of the block, or region.end()
//		...
//	}
//
// The macros of weigh_region.h do so, too: WEIGH_REGION("solve"). With -DWEIGH_OFF all of it compiles to nothing.
#ifndef WEIGH_REGION_HPP
#define WEIGH_REGION_HPP

#include <cstddef>
#include <cstdint>
#include <weigh_region.h>

namespace weigh {

#ifndef WEIGH_OFF

// A name, looked up at its first use while somebody listens. The text must live as long: it is one of the source's.
class Name {
public:
	constexpr explicit Name(const char *text) noexcept : text_(text), number_(0) {}

	weigh_name number() const noexcept
	{
		weigh_name known = __atomic_load_n(&number_, __ATOMIC_RELAXED);

		if (__builtin_expect(!known, 0)) {
			known = weigh_region_name(text_);
			__atomic_store_n(&number_, known, __ATOMIC_RELAXED);
		}
		return known;
	}

private:
	const char *text_;
	mutable weigh_name number_;
};

class Region {
public:
	explicit Region(weigh_name name) noexcept : name_(weigh_regions_active ? name : 0)
	{
		if (name_)
			weigh_region_begin(name_);
	}
	explicit Region(const Name &name) noexcept : Region(weigh_regions_active ? name.number() : 0) {}
	explicit Region(const char *text) noexcept : Region(weigh_regions_active ? weigh_region_name(text) : 0) {}
	Region(const Region &) = delete;
	Region &operator=(const Region &) = delete;
	~Region() { end(); }

	// Ends it before the block does.
	void end() noexcept
	{
		if (name_)
			weigh_region_end(name_);
		name_ = 0;
	}

private:
	weigh_name name_;
};

class Phase {
public:
	Phase(weigh_name name, std::uint64_t iteration) noexcept : name_(weigh_regions_active ? name : 0)
	{
		if (name_)
			weigh_phase_begin(name_, iteration);
	}
	Phase(const Name &name, std::uint64_t iteration) noexcept
		: Phase(weigh_regions_active ? name.number() : 0, iteration)
	{
	}
	Phase(const Phase &) = delete;
	Phase &operator=(const Phase &) = delete;
	~Phase() { end(); }

	void end() noexcept
	{
		if (name_)
			weigh_phase_end(name_);
		name_ = 0;
	}

private:
	weigh_name name_;
};

#else

class Name {
public:
	constexpr explicit Name(const char *) noexcept {}
	weigh_name number() const noexcept { return 0; }
};

class Region {
public:
	template <typename Any> explicit Region(const Any &) noexcept {}
	Region(const Region &) = delete;
	Region &operator=(const Region &) = delete;
	~Region() {}
	void end() noexcept {}
};

class Phase {
public:
	template <typename Any> Phase(const Any &, std::uint64_t) noexcept {}
	Phase(const Phase &) = delete;
	Phase &operator=(const Phase &) = delete;
	~Phase() {}
	void end() noexcept {}
};

#endif

} // namespace weigh

#endif
