#include "bench/bare_convolution.hpp"

namespace convoy {

BareLayouts make_bare_cudnn_convolutions(int, const Stage&, int, int, bool) { return {}; }

}  // namespace convoy
