// SPDX-License-Identifier: Apache-2.0

package journey

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// lost compares the objects of users with the objects that exist now. An error names each missing one; if there is one, the errors also name
// each new object, and who has created and deleted objects since the last comparison. The installer must never delete one.
func (j *Journey) lost(now census) error {
	requests, err := j.requests()
	if err != nil {
		return err
	}
	found := j.machines.missing(now)
	if found != nil {
		for uid, name := range now {
			if j.machines[uid] == "" {
				found = append(found, fmt.Errorf("%s is new", name))
			}
		}
	}
	for _, request := range requests {
		byInstaller := strings.HasPrefix(request.User.Username, "system:serviceaccount:"+j.operatorNamespace+":") && strings.HasPrefix(request.Verb, "delete")
		if byInstaller || found != nil && request.RequestReceivedTimestamp.After(j.compared) {
			found = append(found, line(request))
		}
	}
	return errors.Join(found...)
}

// requests are the requests of the audit log that created or deleted objects of Cluster API.
func (j *Journey) requests() (found []auditv1.Event, err error) {
	log, err := os.Open(j.node.Cluster.AuditLog())
	if err != nil {
		return nil, err
	}
	defer log.Close()
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		request := auditv1.Event{}
		if err := json.Unmarshal(lines.Bytes(), &request); err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		if request.ObjectRef == nil || request.ResponseStatus == nil {
			continue
		}
		created := request.ResponseStatus.Code == http.StatusCreated && !strings.Contains(request.RequestURI, "dryRun")
		if created || strings.HasPrefix(request.Verb, "delete") {
			found = append(found, request)
		}
	}
	if found == nil {
		return nil, fmt.Errorf("%s has no request", log.Name())
	}
	return found, lines.Err()
}

func line(request auditv1.Event) error {
	o := request.ObjectRef
	return fmt.Errorf("%s %s %s %s/%s by %s (%s): status %d", request.RequestReceivedTimestamp.Format(time.TimeOnly), request.Verb,
		o.Resource, o.Namespace, o.Name, request.User.Username, request.UserAgent, request.ResponseStatus.Code)
}
