// How the threads of the libraries that compute wait, and where they run.
#pragma once

namespace convoy {

/// At the start of main, for two libraries that only their environment can tell.
///
/// The threads that oneDNN computes on sleep soon when they wait (GOMP_SPINCOUNT). Left to itself libgomp has them spin for
/// milliseconds, and where another program wants the core too, those that have work to do wait for those that spin: half of
/// the speed is gone, and now and then nearly all. libgomp has read it when main begins, so the program starts itself
/// again; not where the user has chosen (OMP_WAIT_POLICY, GOMP_SPINCOUNT), or where it cannot.
///
/// PoCL's threads are each held to a core of their own (POCL_AFFINITY): left to itself Linux has two of them share one at
/// times, while another core idles, and short kernels take twice as long. Not where the user has chosen, or where this process
/// may not run on all cores: PoCL would count from the first one.
void settle_library_threads(char** arguments);

}  // namespace convoy
