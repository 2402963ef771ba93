// SPDX-License-Identifier: Apache-2.0

package order

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// server is the API server, and a mirror of its etcd. Connections have goroutines that never wait as a bubble demands it, so all traffic is outside
// of the bubbles.
type server struct {
	host             string
	admin, installer *http.Client
	etcd             *clientv3.Client
	calls            chan func() // for goroutines outside of the bubbles
	ca               string      // of the conversion webhook, in base64
	programs         []int       // processes of the API server and etcd
	empty            state       // without an installation

	mu       sync.Mutex // of the mirror
	changed  *sync.Cond
	revision int64
	content  state
	live     map[string]*unstructured.Unstructured // by resource, namespace and name
	begin    int64                                 // revision
	changes  []change                              // since the begin of the schedule
}

// state is the content of etcd by key, without what the API server keeps for itself.
type state map[string]string

// change is a change of an object.
type change struct {
	revision       int64
	key            string                     // resource, namespace and name
	before, object *unstructured.Unstructured // before is nil if the object is new
	deleted        bool
}

// registry begins the keys of the API server.
const registry = "/registry/"

// own are the keys that the API server keeps for itself.
var own = []string{"apiregistration.k8s.io/", "configmaps/kube-system/", "masterleases/", "peerserverleases/", "leases/", "events/", "ranges/"}

// initial is the permission for certificates, as in a cluster without OpenShift.
var initial = map[string]string{
	roleAPI + "roles":        `{"metadata":{"name":"certificates"},"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["*"]}]}`,
	roleAPI + "rolebindings": `{"metadata":{"name":"certificates"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"certificates"},"subjects":[{"kind":"ServiceAccount","name":"` + v1alpha1.ServiceAccountName + `","namespace":"` + v1alpha1.OpenShiftNamespaces.Operator + `"}]}`,
}

const roleAPI = "/apis/rbac.authorization.k8s.io/v1/cluster"

// shared is the server of all tests of the process.
var shared *server

// start starts a cluster in which only the API server works: the other programs are steps. No installation is in it.
func start(t *testing.T) *server {
	cluster := controlplane.Shared(t)
	if shared != nil {
		return shared
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	crds, err := fixture.OpenShiftCRDs(t.Context())
	must(err)
	crds = slices.DeleteFunc(crds, func(crd *unstructured.Unstructured) bool {
		return !strings.HasPrefix(crd.GetName(), "clusteroperators.")
	})
	must(fixture.InstallCRDs(t.Context(), cluster.Config, crds))
	_, err = fixture.Preparation{WithoutOpenShift: true}.Apply(t.Context(), cluster.Config)
	must(err)
	for _, program := range []string{"kube-controller-manager", "kube-scheduler", "kwok"} {
		must(syscall.Kill(cluster.PID(program), syscall.SIGSTOP))
	}
	_, ca, err := fixture.StartConverter(cluster, nil)
	must(err)
	s := &server{
		host: cluster.Config.Host, ca: base64.StdEncoding.EncodeToString(ca), calls: make(chan func()),
		programs: []int{cluster.PID("kube-apiserver"), cluster.PID("etcd")},
	}
	installer, err := fixture.InstallerConfig(t.Context(), cluster)
	must(err)
	for config, user := range map[*rest.Config]**http.Client{cluster.Config: &s.admin, installer: &s.installer} {
		config.DisableCompression = true
		config.NextProtos = []string{"http/1.1"} // cheaper
		*user, err = rest.HTTPClientFor(config)
		must(err)
	}
	for path, object := range initial {
		got, err := s.do(s.admin, "POST", path, as("application/json"), []byte(object))
		if err != nil || !got.ok() {
			t.Fatalf("creating an object: %v %s", err, got.body)
		}
	}
	s.etcd, err = clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + filepath.Join(cluster.Dir, "store:0")}})
	must(err)
	must(s.mirror())
	s.empty, err = s.state()
	must(err)
	go func() {
		for call := range s.calls {
			go call()
		}
	}()
	shared = s
	return s
}

// outside runs a call outside of the bubble of its caller.
func (s *server) outside(call func()) {
	var done sync.Mutex // a bubble does not wait for it
	done.Lock()
	s.calls <- func() {
		defer done.Unlock()
		call()
	}
	done.Lock()
}

// answer is a response with its whole body.
type answer struct {
	code int
	body []byte
}

func (a answer) ok() bool { return a.code < 300 }

// do sends a request, again while the API server begins to serve a CRD.
func (s *server) do(by *http.Client, method, uri string, header http.Header, body []byte) (a answer, err error) {
	for a.code == 0 || a.code == http.StatusTooManyRequests {
		request, err := http.NewRequest(method, s.host+uri, bytes.NewReader(body)) //nolint:noctx // the API server always answers
		if err != nil {
			return a, err
		}
		request.Header = header
		response, err := by.Do(request)
		if err != nil {
			return a, err
		}
		a.code = response.StatusCode
		a.body, err = io.ReadAll(response.Body)
		if err = cmp.Or(err, response.Body.Close()); err != nil {
			return a, err
		}
	}
	return a, nil
}

// send sends a request and returns when the mirror has its change, and the API server has reacted to a changed CRD.
func (s *server) send(by *http.Client, method, uri string, header http.Header, body []byte) (got answer, err error) {
	s.outside(func() {
		for again := 300; again > 0 && err == nil; again-- {
			if got, err = s.do(by, method, uri, header, body); !s.early(uri, got) {
				break
			}
		}
		if err == nil && got.ok() && method != http.MethodGet {
			err = s.catchUp()
		}
		if err == nil && strings.HasPrefix(uri, collectionOf(crdPath)) {
			err = s.settle()
		}
	})
	return got, err
}

// early reports whether the API server can soon give another answer, although nothing changes: a permission, a policy and a CA are in force some time
// after they are written. The program waits with probes for the policy of a removal.
func (s *server) early(uri string, got answer) bool {
	if strings.HasPrefix(uri, revisions+"?dryRun=") {
		return got.ok() && s.get(parse(guardPolicy)) != nil
	}
	return strings.HasPrefix(uri, machineAPI) && (got.code == http.StatusForbidden || got.code == http.StatusInternalServerError) && s.get(parse(crdPath)) != nil
}

// paths takes paths of the API server apart.
var paths = apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// as is the header of a request with a content type.
func as(contentType string) http.Header { return http.Header{"Content-Type": {contentType}} }

// parse takes a path apart.
func parse(uri string) *apirequest.RequestInfo {
	request, err := http.NewRequest(http.MethodGet, uri, nil) //nolint:noctx // it is not sent
	utilruntime.Must(err)
	info, err := paths.NewRequestInfo(request)
	utilruntime.Must(err)
	return info
}

// types are the types of Kubernetes.
var types = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(kubernetesscheme.AddToScheme(scheme))
	apiextensions.Install(scheme)
	return scheme
}()

var decoder = serializer.NewCodecFactory(types).UniversalDeserializer()

// decode decodes an object of etcd, which has CRDs in an older version.
func decode(value []byte, revision int64) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	typed, kind, err := decoder.Decode(value, nil, nil)
	switch {
	case runtime.IsNotRegisteredError(err):
		err = o.UnmarshalJSON(value)
	case kind.Group == apiextensionsv1.GroupName:
		typed, err = types.ConvertToVersion(typed, runtime.InternalGroupVersioner)
		utilruntime.Must(err)
		typed, err = types.ConvertToVersion(typed, apiextensionsv1.SchemeGroupVersion)
		utilruntime.Must(err)
		fallthrough
	default:
		o.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	}
	utilruntime.Must(err)
	o.SetResourceVersion(fmt.Sprint(revision))
	return o
}

// mirror fills the mirror, and keeps it up to date until etcd ends.
func (s *server) mirror() error {
	ctx := context.Background()
	s.changed, s.content, s.live = sync.NewCond(&s.mu), state{}, map[string]*unstructured.Unstructured{}
	found, err := s.etcd.Get(ctx, registry, clientv3.WithPrefix())
	if err != nil {
		return err
	}
	for _, kv := range found.Kvs {
		s.put(string(kv.Key), kv.Value, kv.ModRevision)
	}
	s.revision = found.Header.Revision
	go func() {
		for batch := range s.etcd.Watch(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithRev(s.revision+1)) {
			s.mu.Lock()
			for _, event := range batch.Events {
				s.put(string(event.Kv.Key), event.Kv.Value, event.Kv.ModRevision)
				s.revision = event.Kv.ModRevision
			}
			s.mu.Unlock()
			s.changed.Broadcast()
		}
	}()
	return nil
}

// put records a value of etcd; none after a deletion.
func (s *server) put(key string, value []byte, revision int64) {
	name, kubernetes := strings.CutPrefix(key, registry)
	if !kubernetes || slices.ContainsFunc(own, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
		return
	}
	if group, rest, _ := strings.Cut(name, "/"); strings.Contains(group, ".") {
		name = rest
	}
	name = strings.Replace(name, "services/specs/", "services/", 1)
	c := change{revision: revision, key: name, before: s.live[name], deleted: value == nil}
	if c.deleted {
		c.object = c.before.DeepCopy()
		c.object.SetResourceVersion(fmt.Sprint(revision))
		delete(s.content, key)
		delete(s.live, name)
	} else {
		c.object = decode(value, revision)
		s.content[key], s.live[name] = string(value), c.object
	}
	s.changes = append(s.changes, c)
}

// catchUp waits until the mirror has all that etcd has now.
func (s *server) catchUp() error {
	now, err := s.etcd.Get(context.Background(), "none")
	if err == nil {
		s.await(func() bool { return s.revision >= now.Header.Revision })
	}
	return err
}

// await waits until a condition on the mirror is met.
func (s *server) await(met func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !met() {
		s.changed.Wait()
	}
}

// state returns the content of etcd.
func (s *server) state() (state, error) {
	err := s.catchUp()
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.content), err
}

// restore makes a saved state the state, by one transaction in etcd.
func (s *server) restore(saved state) error {
	now, err := s.state()
	if err != nil {
		return err
	}
	var operations []clientv3.Op
	for key, value := range saved {
		if was, exists := now[key]; !exists || was != value {
			operations = append(operations, clientv3.OpPut(key, value))
		}
	}
	for key := range now {
		if _, stays := saved[key]; !stays {
			operations = append(operations, clientv3.OpDelete(key))
		}
	}
	done, err := s.etcd.Txn(context.Background()).Then(operations...).Commit()
	if err != nil {
		return err
	}
	s.await(func() bool { return s.revision >= done.Header.Revision })
	s.begin, s.changes = done.Header.Revision, nil
	return s.settle()
}

// get returns the object at a path; nil if none exists.
func (s *server) get(of *apirequest.RequestInfo) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[path.Join(of.Resource, of.Namespace, of.Name)]
}

// version returns the resource version that the last changes are newer than.
func (s *server) version(last int) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.changes); last < n {
		return s.changes[n-1-last].revision
	}
	return s.begin
}

// all returns the objects of a collection, sorted by name.
func (s *server) all(of *apirequest.RequestInfo) (found []*unstructured.Unstructured) {
	prefix := path.Join(of.Resource, of.Namespace) + "/"
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, o := range s.live {
		if strings.HasPrefix(key, prefix) {
			found = append(found, o)
		}
	}
	slices.SortFunc(found, func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	return found
}

// settle waits for the controllers of the API server: the CRD is served, or gone.
func (s *server) settle() error {
	var crd *apiextensionsv1.CustomResourceDefinition
	s.await(func() bool {
		crd = typed[apiextensionsv1.CustomResourceDefinition](s.live["customresourcedefinitions/"+machinesCRD])
		if crd == nil || crd.DeletionTimestamp != nil {
			return crd == nil || !slices.Equal(crd.Finalizers, []string{apiextensionsv1.CustomResourceCleanupFinalizer})
		}
		return apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established)
	})
	if crd == nil || crd.DeletionTimestamp != nil {
		return nil
	}
	for _, version := range crd.Spec.Versions {
		for version.Served {
			found, err := s.do(s.admin, http.MethodGet, "/apis/"+crd.Spec.Group+"/"+version.Name, nil, nil)
			if err != nil {
				return err
			}
			version.Served = !found.ok() || !bytes.Contains(found.body, []byte(`"name":"machines"`))
		}
	}
	return nil
}
