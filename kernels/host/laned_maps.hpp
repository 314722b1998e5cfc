// Maps in channels-last or blocked layouts, where one vector instruction treats several channels.
#pragma once

namespace convoy {

/// Maps as (planes, height, width, lanes) floats with the lanes contiguous. Channels-last maps have one plane per
/// sample; maps in blocks of 16 channels have one plane per sample and block; NCHW maps have one plane per sample and
/// channel, and one lane.
struct LanedMaps {
  int planes = 0;
  int height = 0;
  int width = 0;
  int lanes = 0;
};

}  // namespace convoy
