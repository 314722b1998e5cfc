// Loops of kernels over maps; this file is put in front of the other sources. The third index of a work-item is a map
// (sample and channel combined). A work-item computes the whole map on processors, and one element elsewhere.

#ifdef PROCESSOR
#define FOR_ROWS(y, height) for (int y = 0; y < (height); ++y)
#define FOR_COLUMNS(x, width) for (int x = 0; x < (width); ++x)
#else
#define FOR_ROWS(y, height) for (int y = get_global_id(1); y < (height); y += get_global_size(1))
#define FOR_COLUMNS(x, width) for (int x = get_global_id(0); x < (width); x += get_global_size(0))
#endif
