// Package relay is the execution half: it claims tickets, has each carried out by its effect, and
// settles what came of it. It never decides what should happen to an order.
//
// Runner.RunOnce is the unit: one claim, carried out and settled. Loop only calls it, at a schedule
// and whenever a commit has put tickets on the rail. The table is the truth, the schedule the floor,
// the wake-up a hint.
//
// Each target outside has a lane of its own beside that. What is to be done for a ticket is decided by two
// pure functions over what is known: Remote.plan before a send, Remote.judge after it.
//
// # Invariants, and the tests that hold them
//
//   - A panic or an unreadable payload parks that ticket and nothing else: TestPoisonParksOneTicket.
//   - A ticket that kills the process is found out and parked, the others flow: TestTicketThatKillsTheProcess.
//   - Being stopped is not failing: what was not begun is released untouched: TestStopReleasesWhatWasNotBegun.
//   - A late worker settles nothing: TestLateRelayChangesNothing.
//   - A loop that panics is started again and says so: TestLoopOutlivesAPanic.
//   - Nothing is sent blindly after the target may have forgotten the key: TestPlan, TestKeyExpires.
//   - A success is written down however late it comes: TestLateSuccessAfterALostLease.
//   - Offline is a state and charges nobody: TestThreeDaysOffline.
//   - What is real in the file is never simulated: TestRealTargetIsNotSimulated.
//   - A wall clock that is set neither stalls the schedule nor has it come round in a storm: TestScheduleOutlivesSteps.
//   - A send ends with its time even if the machine sleeps through it: TestSleepInTheMiddleOfASend.
//   - What waits for one target hides nothing of another's: TestTargetsAreApart.
package relay
