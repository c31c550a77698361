// Package store keeps a comanda file: it is the only package that speaks SQL.
//
// Writes go through DB.Update, reads through DB.View; no commit or rollback can be reached from
// inside either. All writes of a process share one connection and one goroutine: what arrives
// together is committed together, in one BEGIN IMMEDIATE with one fsync, and each caller is
// answered only after that commit.
//
// # Invariants, and the tests that hold them
//
//   - A group in which one member fails is run again member by member, so the failing one alone
//     gets its error: TestGroupOneFailingMemberAlone.
//   - A statement after a failed one in the same transaction does nothing: TestNothingGoesOnAfterAnError.
//   - Every change of a claimed ticket names the claim's token; a late worker changes nothing:
//     TestLateWorkerChangesNothing.
//   - Two claims never share a ticket: TestClaimsShareNothing.
//   - A dead holder's lease is void at once, a living one's only after a watcher has seen it stand
//     for its whole length: TestDeadHolderFreedAtOnce, TestStoppedHolderFreedAfterItsLease.
//   - A lease ends while the machine sleeps, for its holder first: TestLeaseEndsWhileTheMachineSleeps.
//   - What waits keeps the length of its wait when the wall clock is set: TestWaitsOutlastAClockThatIsSet.
//   - A ledger row and its effect are written together or not at all: TestSettleLocalOnce.
//   - No send without its row, and no other letter than the first: TestBeginAttempt.
//   - What a send found out is written in every state of its ticket, and undoes no end: TestRemember.
//   - What is real in this file is claimed for no lab: TestLanes, TestMarks.
//   - An order is taken back once, however its lines stand: TestCompensationMatrix.
//   - A claim costs the same however many tickets are done: TestQueryPlans.
//   - How many tickets have come to rest is right whoever writes: TestCountsFollowTheOutbox.
//   - A page that follows the file misses nothing that comes or changes its state: TestChanged.
package store
