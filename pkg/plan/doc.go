// Package plan decides. It is handed a [Snapshot] of one node and what touches it and
// returns a [Plan]: the fate of each VM and pod with its reason, the findings of the
// pre-checks, the actions to take now, and what the node is to show. Controller,
// webhook, HTTP API and every client that shows a plan call the same functions, so
// they cannot disagree.
//
// It is ring 0: no I/O, no clock (Now is a field of the snapshot), no logger. It
// imports the standard library, API types, pkg/maintenance, and two libraries that are
// pure functions over API types: component-helpers for how the scheduler matches pods
// and nodes, and klog for the logger type that it asks for.
//
// # The state machine
//
//	                 request                     a check refuses
//	(no condition) ─────────▶ Validating/Unknown ───────────────▶ Error/False
//	  ▲    ▲  ▲  ▲   taken back   │                 next request ──▶ Validating
//	  │    │  │  └────────────────┤ admitted under the ledger
//	  │    │  │                   ▼
//	  │    │  └─── leave ─── Draining/True ◀──────────────────┐
//	  │    │                      │ nothing left to evict     │ a VM arrives
//	  │    └────── leave ─── Evacuating/True                  │
//	  │                           │ no VM, no pod left        │
//	  ├─────────── leave ─── Completed/True ──────────────────┘
//	  │
//	  └─────────── leave ─── Error/True ◀── drain limit, or a human's uncordon,
//	                              │         from Draining or Evacuating
//	                              └── request again ──▶ Draining, with a new clock
//
// "Leave" is a record without maintain-status: whoever removes that annotation, in
// whatever phase, wants the node back.
//
// # On the node
//
// A VMI is on a node if its status says so, or if a launcher pod of it that has not ended
// is bound there, since KubeVirt fills the status only when the launcher is ready, or if
// an unfinished migration brings it there. What matches a label is not asked: a node's
// name may be longer than a label's value.
//
// # The fates of VMs
//
//	the VM's strategy                not forced                    forced
//	Migrate, none, unknown
//	  that can move                  moved                         moved
//	  that cannot move               blocks                        stopped, stays off
//	  whose owner's template allows  stopped, started elsewhere    as those above
//	  an interruption                once the node is empty
//	ShutdownAndRestartAfterEnable    stopped, started elsewhere    stopped, stays off
//	                                 once the node is empty
//	ShutdownAndRestartAfterDisable   stopped, started on leaving   stopped, stays off
//	Shutdown                         stopped, stays off            stopped, stays off
//	a VMI without a VM
//	  that can move                  moved                         moved
//	  that cannot move               blocks                        deleted
//
// What is to be started elsewhere waits for leaving where no other node can host it, or
// where the last healthy replica of one of its volumes is on the node. With HonorStrategy
// force leaves the three shutdown strategies as they are.
//
// # The pre-checks
//
// All run, and what they find is told together. Force overrides those of the node's
// readiness and of the VMs.
//
//	Quorum           too few members of the control plane would remain
//	LastNode         no other node would remain on which VMs can run
//	Node             it does not exist or is not Ready
//	VirtualMachines  one blocks, by the table above
//	Storage          what a VM elsewhere or a plain pod uses has its last healthy replica here
//	Upgrade          Harvester is being upgraded
//	Capacity         a warning: the others cannot hold what the VMs request
//
// A replica is healthy that was so once and has not failed since, is not being deleted, is
// readable and writable where its engine knows it, and is on a node that is Ready and out
// of maintenance.
//
// # Invariants
//
//   - Nothing is changed on a node or VM before admission, and nothing on a node whose
//     maintenance has no record of Drydock's.
//   - A VM is stopped only while no migration of it is unfinished, and started only
//     when it is halted, its VMI is gone, KubeVirt has seen the stop, and no node may
//     still be running it.
//   - Without force, a VM is not stopped for an obstacle that has come since the
//     admission; with force, not for one that may go within a minute.
//   - A VM is started only by its own record: same maintenance, same node UID.
//   - A node that was cordoned before is still cordoned afterwards.
//   - What somebody else asked of KubeVirt is neither repeated nor withdrawn.
//   - What is said changes only when something changed: no durations, no counters of
//     attempts that time alone moves.
package plan
