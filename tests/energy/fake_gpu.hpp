// A GPU of the library that tests load in the place of NVIDIA's.
#pragma once

/// A GPU's state, which tests change. A negative number means that the GPU does not have the value.
struct FakeGpu {
  const char* name;
  double millijoules;
  double instant_milliwatts;
  double average_milliwatts;
  double usage_milliwatts;
  int mig;      ///< 1: the GPU is split into parts
  int failure;  ///< what reading the counter returns
};
