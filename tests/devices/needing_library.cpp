extern "C" int convoy_needed();
extern "C" int convoy_needing() { return convoy_needed() + 1; }
