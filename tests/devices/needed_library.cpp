extern "C" int convoy_needed() { return 42; }
