<?php
// Clients of Redis and memcached that record what happened to the requests that set or delete a key.

declare(strict_types=1);

const ONE_SERVER_S = 1.5;
const EACH_SERVER_S = 0.25; // of several: CombinedStore asks one after the other, and the sum must stay below the ttl
const MEMCACHED_ANSWER_MS = 1000; // libmemcached's own is five seconds, and a release sends several requests

/**
 * It connects when it is first needed, and again after the connection was lost, as a lazy connection of Symfony does.
 * Connecting, and each answer, may take $answerS.
 */
final class RecordedRedis extends Redis
{
    /** Called before each SET. */
    public ?Closure $beforeSet = null;

    private function __construct(
        private readonly Record $record,
        private readonly int $number,
        private readonly string $server,
        private readonly int $portNumber,
        private readonly float $answerS,
    ) {
        parent::__construct();
    }

    /** @return self[] a client of each server */
    public static function ofAll(array $addresses, Record $record): array
    {
        $answerS = 1 === count($addresses) ? ONE_SERVER_S : EACH_SERVER_S;
        $clients = [];
        foreach ($addresses as $number => [$host, $port]) {
            $clients[] = new self($record, $number, $host, $port, $answerS);
        }

        return $clients;
    }

    /** RedisStore calls it before each script. */
    public function clearLastError()
    {
        $this->connectIfNeeded();

        return parent::clearLastError();
    }

    /** Scripts of both libraries that delete have one argument, Symfony's that set have three, that read have two. */
    public function eval($script, $args = [], $num_keys = 0)
    {
        $arguments = count($args) - $num_keys;
        $note = match ($arguments) {
            1 => fn (?bool $done) => $this->record->deleted($this->number, null !== $done),
            3 => fn (?bool $done) => $this->record->set($this->number, $done),
            default => static fn () => null,
        };

        return $this->recorded(fn () => parent::eval($script, $args, $num_keys), $note);
    }

    public function set($key, $value, $opts = null)
    {
        if ($this->beforeSet) {
            ($this->beforeSet)();
        }
        $note = fn (?bool $done) => $this->record->set($this->number, $done);

        return $this->recorded(fn () => parent::set($key, $value, $opts), $note);
    }

    private function recorded(Closure $request, Closure $note): mixed
    {
        $this->connectIfNeeded(); // throws before anything is sent
        try {
            $reply = $request();
        } catch (RedisException $error) {
            $note(null);
            $this->close();
            throw $error;
        }
        $note((bool) $reply);

        return $reply;
    }

    private function connectIfNeeded(): void
    {
        if ($this->isConnected()) {
            return;
        }
        if (!@$this->connect($this->server, $this->portNumber, $this->answerS, null, 0, $this->answerS)) {
            throw new RedisException("{$this->server}:{$this->portNumber} cannot be reached");
        }
    }
}

final class RecordedMemcached extends Memcached
{
    private const NOT_SENT = [
        self::RES_CONNECTION_FAILURE, self::RES_CONNECTION_SOCKET_CREATE_FAILURE, self::RES_HOST_LOOKUP_FAILURE,
        self::RES_NO_SERVERS, self::RES_SERVER_MARKED_DEAD, self::RES_SERVER_TEMPORARILY_DISABLED,
    ];
    private const ANSWERED = [self::RES_SUCCESS, self::RES_NOTSTORED, self::RES_DATA_EXISTS, self::RES_NOTFOUND];

    private Record $record;

    public static function connectedTo(string $host, int $port, Record $record): self
    {
        $client = new self();
        $client->record = $record;
        $client->setOption(self::OPT_CONNECT_TIMEOUT, MEMCACHED_ANSWER_MS);
        $client->setOption(self::OPT_POLL_TIMEOUT, MEMCACHED_ANSWER_MS);
        $client->addServer($host, $port);

        return $client;
    }

    public function add($key, $value, $expiration = 0): bool
    {
        return $this->recordedSet(parent::add($key, $value, $expiration));
    }

    public function cas($cas_token, $key, $value, $expiration = 0): bool
    {
        return $this->recordedSet(parent::cas($cas_token, $key, $value, $expiration));
    }

    /** MemcachedStore takes a GET without an answer for one without an item, and then deletes nothing. */
    public function get($key, $cache_cb = null, $get_flags = 0): mixed
    {
        $value = parent::get($key, $cache_cb, $get_flags);
        if (!$this->isAnswered() && !$this->isNotSent()) {
            $this->record->deleted(0, false);
        }

        return $value;
    }

    public function delete($key, $time = 0): bool
    {
        $deleted = parent::delete($key, $time);
        $this->record->deleted(0, $this->isAnswered());

        return $deleted;
    }

    private function recordedSet(bool $done): bool
    {
        $this->record->set(0, $this->isAnswered() || $this->isNotSent() ? $done : null);

        return $done;
    }

    private function isAnswered(): bool
    {
        return in_array($this->getResultCode(), self::ANSWERED, true);
    }

    private function isNotSent(): bool
    {
        return in_array($this->getResultCode(), self::NOT_SENT, true);
    }
}
