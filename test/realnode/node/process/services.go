// SPDX-License-Identifier: Apache-2.0

//go:build linux

package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/vishvananda/netlink"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// NewProxyCommand returns a program that gives Services their addresses: it listens on each TCP port of a Service, and
// forwards connections to a ready endpoint.
func NewProxyCommand() *cobra.Command {
	var kubeconfig, network, health string
	command := &cobra.Command{Use: "process-proxy", SilenceUsage: true, RunE: func(command *cobra.Command, _ []string) error {
		return runProxy(command.Context(), kubeconfig, network, health)
	}}
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "`file` with the address of the API server")
	command.Flags().StringVar(&network, "service-network", "", "`CIDR` of the Services")
	command.Flags().StringVar(&health, "healthz-bind-address", "", "`address` that accepts connections when the proxy works")
	return command
}

// proxy has the listener of each port of a Service.
type proxy struct {
	services  corelisters.ServiceLister
	endpoints discoverylisters.EndpointSliceLister
	mu        sync.Mutex
	listeners map[netip.AddrPort]net.Listener
}

func runProxy(ctx context.Context, kubeconfig, network, health string) error {
	if err := claim(network); err != nil {
		return fmt.Errorf("claiming the addresses of Services: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	services, endpoints := factory.Core().V1().Services(), factory.Discovery().V1().EndpointSlices()
	p := &proxy{services: services.Lister(), endpoints: endpoints.Lister(), listeners: map[netip.AddrPort]net.Listener{}}
	changed := func(any) { p.listen() }
	if _, err := services.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: changed, UpdateFunc: func(_, _ any) { p.listen() }, DeleteFunc: changed}); err != nil {
		return err
	}
	endpoints.Informer()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	listener, err := net.Listen("tcp", health)
	if err != nil {
		return err
	}
	defer listener.Close()
	<-ctx.Done()
	return nil
}

// claim makes all addresses of a network local ones; an earlier process may have done it.
func claim(network string) error {
	address, err := netlink.ParseAddr(network)
	if err != nil {
		return err
	}
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.AddrReplace(loopback, address)
}

// listen opens the missing listeners, and closes the ones without a Service.
func (p *proxy) listen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	services, _ := p.services.List(labels.Everything())
	wanted := map[netip.AddrPort]bool{}
	for _, service := range services {
		ip, err := netip.ParseAddr(service.Spec.ClusterIP)
		if err != nil { // a headless Service
			continue
		}
		for _, port := range service.Spec.Ports {
			address := netip.AddrPortFrom(ip, uint16(port.Port))
			wanted[address] = true
			if p.listeners[address] != nil || port.Protocol != v1.ProtocolTCP {
				continue
			}
			listener, err := net.Listen("tcp", address.String())
			if err != nil {
				klog.ErrorS(err, "Listening for a Service", "service", klog.KObj(service))
				continue
			}
			p.listeners[address] = listener
			go p.serve(listener, service.Namespace, service.Name, port.Name)
		}
	}
	for address, listener := range p.listeners {
		if !wanted[address] {
			_ = listener.Close()
			delete(p.listeners, address)
		}
	}
}

func (p *proxy) serve(listener net.Listener, namespace, name, port string) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return // closed
		}
		go func() {
			defer client.Close()
			server, err := p.dial(namespace, name, port)
			if err != nil {
				klog.ErrorS(err, "Forwarding a connection", "service", klog.KRef(namespace, name))
				return
			}
			defer server.Close()
			go func() {
				_, _ = io.Copy(server, client)
				_ = server.(*net.TCPConn).CloseWrite()
			}()
			_, _ = io.Copy(client, server)
		}()
	}
}

// dial connects with a ready endpoint.
func (p *proxy) dial(namespace, name, port string) (net.Conn, error) {
	slices, err := p.endpoints.EndpointSlices(namespace).List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: name}))
	if err != nil {
		return nil, err
	}
	var ready []string
	for _, slice := range slices {
		for _, open := range slice.Ports {
			if *open.Name != port {
				continue
			}
			for _, endpoint := range slice.Endpoints {
				if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
					ready = append(ready, net.JoinHostPort(endpoint.Addresses[0], strconv.Itoa(int(*open.Port))))
				}
			}
		}
	}
	if len(ready) == 0 {
		return nil, errors.New("no endpoint is ready")
	}
	return net.DialTimeout("tcp", ready[rand.IntN(len(ready))], 10*time.Second)
}
