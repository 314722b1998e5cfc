// Settings for the threads of the numerical libraries: how they wait, and where they run.
#pragma once

namespace convoy {

/// Sets environment variables of two libraries, which read them before main or when they are loaded. Call it at the
/// start of main.
/// GOMP_SPINCOUNT makes the threads of oneDNN sleep soon when they wait. By default libgomp lets them spin for
/// milliseconds; where another program needs the core too, threads with work then wait for threads that spin, and the
/// speed falls by half, and now and then to almost nothing. libgomp has read the variable before main begins, so the
/// program executes itself again. It does not where the user has set OMP_WAIT_POLICY or GOMP_SPINCOUNT, or where exec
/// fails.
/// POCL_AFFINITY pins each of PoCL's threads to a core of its own. By default Linux at times lets two of them share a
/// core while another core idles, and short kernels then take twice as long. The function leaves the variable alone
/// where the user has set it, or where the process may not run on all cores, because PoCL counts cores from the first
/// one.
void settle_library_threads(char** arguments);

}  // namespace convoy
