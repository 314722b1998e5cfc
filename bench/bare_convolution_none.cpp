#include "bench/bare_convolution.hpp"

namespace convoy {

std::vector<std::unique_ptr<BareConvolution>> make_bare_convolutions(const Stage&, int, int, int) { return {}; }

}  // namespace convoy
