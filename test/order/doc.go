// SPDX-License-Identifier: Apache-2.0

// Package order proves the order of events: it runs the real controllers against a real API server, and decides which of their requests and watch
// events comes next.
//
// # A schedule
//
// A schedule begins with the installation of a release, or in the state that such an installation has left. One transaction writes this state to etcd
// (cluster_test.go), so neither an installation nor an uninstall lies between two schedules. Then the program starts with another release.
//
// It runs in a bubble of testing/synctest, with the clock of the bubble: no back-off and no lease takes time. The transport of the manager
// (process_test.go) holds each request until the scheduler (scheduler_test.go) lets it pass, and each watch event until the scheduler delivers it.
// The scheduler moves when all goroutines of the bubble wait. The hub of the process outside of the bubble (server_test.go) watches each resource. The
// API server answers a write, and the step ends when the hub has seen the change; the hub answers reads, except of instances, which the API
// server converts. So the order of the steps is a function of the schedule.
//
// A schedule is a list of moves. Without moves, the steps pass in the order in which they began to wait. A move delays an actor, shuffles,
// makes a fault, or is an action of another actor. Its place is a tick: one tick is before each write of the process, and one after it, so that a seed
// need not guess where something can happen. A seed decides on the moves, often with two close to each other. A failing schedule is shrunk: moves go
// while it still fails.
//
// # Requests that are no steps
//
// Discovery, OpenAPI, the lists of informers and access reviews are answered at once. Informers list from the hub, at its state or, after a crash
// with stale lists, at an earlier state. An informer that has lost an event lists again when nothing else happens. Kubernetes Events are recorded,
// and not sent.
//
// # Which bugs it finds
//
// Seeded bugs of test/mutants, each with the forty schedules of the seeds from 2000 on, without a hint: the number of those that fail. In all but
// the first two, two actors act in an order that the program does not choose.
//
//	previous-owner-stays                                    39
//	written-phase-skipped                                   18
//	phases-rolled-out-at-once (kubelet)                     40
//	adopted-deployment-stopped (removal of a version)       39
//	clusterapi-from-cache (informers)                       38
//	snapshot-from-cache (informers, restart)                37
//	storage-switched-before-pods (kubelet)                  17
//	released-before-ready (kubelet)                         15
//	foreign-fields-stay (another manager writes the CA)     10
//	stored-version-dropped (clients of the old version)     10
//	structure-kept (foreign manager)                         9
//	adopt-annotation-stays (user, former owner)              9
//	clusteroperator-from-older-read (two controllers)        5
//	instances-not-rewritten (clients of the old version)     5
//	status-before-configmap (two controllers)                3
//	changed-object-skipped, deleted-object-skipped (user)    2
//	unmanaged-ignored, unmanaged-crd-is-installed (user)     2
//	restored-fields-stay (user restores a backup)            1
//	superseded-objects-resurrected (two versions, user)      1
//	unseen-generation-observed (user changes the spec)       1
//
// In 160 schedules: hold-decided-on-cache (informers, kubelet) 2. TestReplays finds interrupted-removal-keeps-conversion, replaced-configmap-recreated,
// restore-before-apply and retained-crd-not-migrated.
//
// It does not find in forty schedules of this or an earlier generator: apply-creates-deleted-object, configmaps-from-cache, crd-deleted-without-check,
// crd-deleted-without-policy, crds-shrink-before-pods, current-version-reverts-storage, deleted-object-installed, fields-of-a-create-stay,
// finalizers-of-others-removed, foreign-configmap-replaced, late-owners-lost, late-write-stays, managers-run-during-uninstall (no Deployment has pods),
// owners-of-dropped-versions, removal-decided-on-cache, teardown-forgets-unmanaged. The others were not tried.
//
// # Cost
//
// A schedule has about 420 steps, and costs 1.1 s of CPU time: 0.5 s in the process of the test, 0.5 s in the API server and 0.1 s in etcd. So an
// hour of CPU time has room for 3,300 schedules. TestOrder prints these figures. No part stands out in a profile. In the process of the test, the
// reconciles of the program take 40 %, and the collection of garbage 6 %. In the API server, writes take 37 %, half of them of the status of
// ClusterAPI and ClusterOperator, and the collection of garbage 10 %. OpenAPI documents without descriptions would save 8 %.
//
// # Run it
//
//	make order SEED=1 HOURS=2
//	go test ./test/order -run TestReplays -replay '{"From":1,"To":2,"Moves":[{"At":8,"Kind":"uninstall"}]}' -log
//
// The first failing schedule of a run is shrunk, and its steps are printed. Of the others, the violated invariant is printed.
package order
