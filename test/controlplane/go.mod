module github.com/capi-installer/capi-installer/test/controlplane

go 1.26.0

require (
	k8s.io/apimachinery v0.37.2
	k8s.io/client-go v0.37.2
)
