// The same in C++, by guards. An exception ends them, too.
//
//	c++ regions.cpp -o regions $(pkg-config --cflags --libs weigh)
#include <iostream>
#include <stdexcept>
#include <weigh_region.hpp>

namespace {

void exchange()
{
	static const weigh::Name name("exchange");
	weigh::Region region(name);
	throw std::runtime_error("no neighbour");
}

void solve(long cells)
{
	WEIGH_REGION("solve");
	try {
		exchange();
	} catch (const std::runtime_error &) {
	}
	weigh_count("cells", cells);
}

} // namespace

int main()
{
	static const weigh::Name iteration("iteration");

	weigh_metadata("input", "case-7");
	for (unsigned i = 0; i < 10; i++) {
		weigh::Phase phase(iteration, i);
		solve(4096);
		weigh_event_value("residual", 1.0 / (i + 1));
		weigh_publish();
	}
	std::cout << "done\n";
}
