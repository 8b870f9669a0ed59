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
// # Invariants
//
//   - Nothing is changed on a node or VM before admission, and nothing on a node whose
//     maintenance has no record of Drydock's.
//   - A VM is stopped only while no migration of it is unfinished, and started only
//     when it is halted, its VMI is gone, KubeVirt has seen the stop, and no node may
//     still be running it.
//   - A VM is started only by its own record: same maintenance, same node UID.
//   - A node that was cordoned before is still cordoned afterwards.
//   - What somebody else asked of KubeVirt is neither repeated nor withdrawn.
//   - What is said changes only when something changed: no durations, no counters of
//     attempts that time alone moves.
package plan
