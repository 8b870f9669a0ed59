// Package api serves node actions over HTTP, as Harvester's front-end and scripts use
// them, and what a front-end's list of hosts reads. An action writes a wish to the Node,
// or reads a plan; what follows is the controllers' work. Nothing here is remembered that
// another replica would need: each serves alone.
//
// Every handler asks for the caller's rights itself. What a caller may not do is also not
// offered, but nothing rests on that.
//
// Who lives where: access says who is asking, view how objects look, feed and stream how
// their changes reach clients.
//
// What it needs of the cluster, beside what pkg/api/access lists and what the manager has
// for its work:
//
//	get, list, watch, patch  nodes          intents: annotations and spec.unschedulable
//	list, watch  namespaces, pods           lists of the same name; watched once somebody asks
//	get          addons.harvesterhci.io "harvester-seeder" in harvester-system
//	get, update  inventories.metal.harvesterhci.io in harvester-system      power actions
//	patch        inventories/status         the job of an earlier power action is forgotten
package api
