// Package access says who is asking and what they may: it authenticates requests by
// bearer token, client certificate or front proxy, honours impersonation, and asks the
// cluster's own authorisation for every right. It keeps no users and no rules.
//
// The building blocks are those of k8s.io/apiserver that read certificates and headers.
// Its ready-made delegating authenticator and authorizer are not used: they bring CEL,
// gRPC and OpenTelemetry's exporters along, a third of the manager's size, for two
// requests that are written here in a few lines (see docs/adr/0006).
//
// What it needs of the cluster, beside what the manager has for its work:
//
//	create  tokenreviews.authentication.k8s.io             tokens of callers
//	create  subjectaccessreviews.authorization.k8s.io      rights of callers
//	get, list, watch  configmaps "extension-apiserver-authentication" in kube-system
//	                                                       the cluster's CA of clients and front proxies
package access
