// The one parallel loop. Ranges are static: which thread does what, and so every sum, depends on the number of threads
// alone. The threads are those of OpenMP that torch has started already.
#pragma once

#include <algorithm>

#include "interface.hpp"

#ifdef UNCLUMP_STANDARD_THREADS
#include <thread>
#include <vector>
#endif

// Calls body(item) for all items below `count`.
template <class Body>
void for_each(Index count, Index threads, const Body& body) {
    threads = std::min(threads, count);
    if (threads <= 1) {
        for (Index item = 0; item < count; ++item) body(item);
        return;
    }
#ifdef UNCLUMP_STANDARD_THREADS  // for the thread sanitiser, which does not see where OpenMP's threads wait
    std::vector<std::thread> team;
    for (Index thread = 0; thread < threads; ++thread) {
        team.emplace_back([&, thread] {
            for (Index item = count * thread / threads; item < count * (thread + 1) / threads; ++item) body(item);
        });
    }
    for (std::thread& member : team) member.join();
#else
#pragma omp parallel for schedule(static) num_threads(static_cast<int>(threads))
    for (Index item = 0; item < count; ++item) body(item);
#endif
}

// Calls body(start, stop) for ranges that make up [0, count), one for each thread.
template <class Body>
void in_parallel(Index count, Index threads, const Body& body) {
    threads = std::max<Index>(1, std::min(threads, count));
    for_each(threads, threads, [&](Index part) { body(count * part / threads, count * (part + 1) / threads); });
}

// All pairs of pieces of [0, count), for loops that write to both of a pair: no two threads have the same piece at the
// same time, and what a piece is written to comes in the same order always.
class PairsOfPieces {
  public:
    PairsOfPieces(Index count, Index threads) : count_(count), threads_(threads), pieces_(2 * threads) {}

    // How many pairs are worked on at once.
    Index slots() const { return pieces_; }

    // Calls body(slot, start, stop, other_start, other_stop), with both ranges equal for the pair of a piece with
    // itself.
    template <class Body>
    void for_each_pair(const Body& body) const {
        const auto call = [&](Index slot, Index one, Index other) {
            body(slot, start(one), start(one + 1), start(other), start(other + 1));
        };
        for_each(pieces_, threads_, [&](Index piece) { call(piece, piece, piece); });
        // As at a tournament: one piece stays, the others move on by a place after every round, until every two have
        // met.
        const Index around = pieces_ - 1;
        for (Index round = 0; round < around; ++round) {
            for_each(pieces_ / 2, threads_, [&](Index table) {
                const Index one = table == 0 ? around : (round + table) % around;
                const Index other = (round + around - table) % around;
                call(table, std::min(one, other), std::max(one, other));
            });
        }
    }

  private:
    Index start(Index piece) const { return count_ * piece / pieces_; }
    Index count_, threads_, pieces_;
};
