// How OpenMP's threads wait for one another.
#pragma once

namespace convoy {

/// At the start of main: has the threads that oneDNN computes on sleep soon when they wait. Left to itself libgomp has them
/// spin for milliseconds, and where another program wants the core too, those that have work to do wait for those that
/// spin: half of the speed is gone, and now and then nearly all. libgomp reads this from the environment before main
/// begins, so the program starts itself again; not where the user has chosen (OMP_WAIT_POLICY, GOMP_SPINCOUNT), or where it
/// cannot.
void let_waiting_threads_sleep(char** arguments);

}  // namespace convoy
