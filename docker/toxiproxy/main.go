// Command toxiproxy is the stock Toxiproxy server of the released module plus one toxic, "snare" (snare.go),
// and a port on which a listener hears all data before it passes (tap.go).
//
// Toxiproxy's own server is a main package and cannot be imported; its CREATING_TOXICS.md says to copy it in order to
// register a toxic, which this does, less what the harness has no use for (configuration file, metrics).
package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/rs/zerolog/log"
)

func main() {
	host := flag.String("host", "localhost", "address the HTTP API listens on")
	port := flag.String("port", "8474", "port the HTTP API listens on")
	tapPort := flag.String("tap", "8475", "port on which a listener is told of all data, see tap.go")
	version := flag.Bool("version", false, "print the version of Toxiproxy")
	flag.Parse()
	if *version {
		fmt.Println(toxiproxy.Version)
		return
	}

	// As process 1 of a container it would otherwise ignore the signal and be killed ten seconds later.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		os.Exit(0)
	}()

	// Toxiproxy logs two lines for each connection, more than a container that reconnects all the time should keep.
	level, err := zerolog.ParseLevel(os.Getenv("LOG_LEVEL"))
	if err != nil || level == zerolog.NoLevel {
		level = zerolog.WarnLevel
	}
	logger := zerolog.New(os.Stderr).Level(level).With().Timestamp().Logger()
	log.Logger = logger // the toxics that come with Toxiproxy log there

	listeners, err := net.Listen("tcp", net.JoinHostPort(*host, *tapPort))
	if err != nil {
		logger.Fatal().Err(err).Msg("cannot listen for the tap")
	}
	go theTap.serve(listeners)

	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), logger)
	server.Listen(*host, *port)
}
