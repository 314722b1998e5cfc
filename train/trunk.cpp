#include "train/trunk.hpp"

#include <algorithm>

namespace convoy {

void add_times(const std::vector<MemberTime>& times, std::vector<MemberTime>& sums) {
  for (const MemberTime& time : times) {
    auto sum = std::ranges::find(sums, time.member, &MemberTime::member);
    if (sum == sums.end()) sum = sums.insert(sum, {.member = time.member});
    sum->compute += time.compute;
    sum->transfer += time.transfer;
    sum->wait += time.wait;
    sum->sent += time.sent;
    sum->received += time.received;
    sum->states_sent += time.states_sent;
    sum->states_received += time.states_received;
  }
}

}  // namespace convoy
