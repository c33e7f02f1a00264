<?php
// Symfony's stores, made as its documentation makes them, on clients with time-outs.

declare(strict_types=1);

use Symfony\Component\Lock\PersistingStoreInterface;
use Symfony\Component\Lock\Store\CombinedStore;
use Symfony\Component\Lock\Store\MemcachedStore;
use Symfony\Component\Lock\Store\PdoStore;
use Symfony\Component\Lock\Store\PostgreSqlStore;
use Symfony\Component\Lock\Store\RedisStore;
use Symfony\Component\Lock\Strategy\ConsensusStrategy;

const ANSWER_S = 2;

/** The services of one program: makes the store of a lock, and tells which errors leave an outcome unknown. */
final class Stores
{
    /** Errors of MySQL's and PostgreSQL's clients by which a request was not answered. */
    private const UNANSWERED = '/gone away|lost connection|closed the connection|could not receive|timed out|no connection/i';

    private readonly float|int $initialTtl;
    /** @var PDO[] PostgreSQL's connections, with the option keep_connections: their object's hash is not used again */
    private array $kept = [];

    public function __construct(private readonly array $request, public readonly Record $record)
    {
        $this->initialTtl = $request['options']['initial_ttl'] ?? 300;
    }

    /** Servers that must have the key of a holder. */
    public function quorum(): int
    {
        return intdiv(count($this->request['addresses']), 2) + 1;
    }

    /** The name of a key in the service. memcached's must be short, without blanks and control characters. */
    public function resource(string $key): string
    {
        $plain = 'symfony-memcached' !== $this->request['lock'] || 1 === preg_match('/^[!-~]{1,200}$/', $key);

        return $plain ? $key : hash('sha256', $key);
    }

    /** Opens a store. Throws Refused if its database cannot be reached. */
    public function open(): PersistingStoreInterface
    {
        return match ($this->request['lock']) {
            'symfony-redis' => $this->redis()[0],
            'symfony-redlock' => new CombinedStore($this->redis(), new ConsensusStrategy()),
            'symfony-memcached' => $this->memcached(),
            'symfony-pdo' => $this->table(),
            'symfony-postgres' => new PostgreSqlStore($this->postgres()),
        };
    }

    /** True if the error says that a database has not answered. (Of Redis and memcached the record tells.) */
    public static function isUnanswered(Throwable $error): bool
    {
        for ($cause = $error; $cause; $cause = $cause->getPrevious()) {
            if ($cause instanceof PDOException && preg_match(self::UNANSWERED, $cause->getMessage())) {
                return true;
            }
        }

        return false;
    }

    /** @return RedisStore[] */
    private function redis(): array
    {
        $clients = RecordedRedis::ofAll($this->request['addresses'], $this->record);

        return array_map(fn (RecordedRedis $client) => new RedisStore($client, $this->initialTtl), $clients);
    }

    private function memcached(): MemcachedStore
    {
        [$host, $port] = $this->request['addresses'][0];

        return new MemcachedStore(RecordedMemcached::connectedTo($host, $port, $this->record), (int) $this->initialTtl);
    }

    private function table(): PdoStore
    {
        ini_set('mysqlnd.net_read_timeout', (string) ANSWER_S);
        $account = $this->request['account'];
        [$host, $port] = $this->request['addresses'][0];
        $options = [PDO::ATTR_TIMEOUT => ANSWER_S];
        $store = new PdoStore(
            self::connected("mysql:host=$host;port=$port;dbname=$account;charset=utf8mb4", $account, $options),
            initialTtl: (int) $this->initialTtl
        );
        try {
            $store->createTable();
        } catch (PDOException) {
            // It exists. If it does not, the first acquire says so.
        }

        return $store;
    }

    /** PDO has no time-out for PostgreSQL's answers; these options of libpq end a connection whose packets are lost. */
    private function postgres(): PDO
    {
        $account = $this->request['account'];
        [$host, $port] = $this->request['addresses'][0];
        $keepalives = 'keepalives_idle=1;keepalives_interval=1;keepalives_count=2';

        $source = "pgsql:host=$host;port=$port;dbname=$account;connect_timeout=2;tcp_user_timeout=2000;$keepalives";
        $connection = self::connected($source, $account, [PDO::ATTR_TIMEOUT => ANSWER_S]);
        if ($this->request['options']['keep_connections'] ?? false) {
            $this->kept[] = $connection;
        }

        return $connection;
    }

    private static function connected(string $source, string $account, array $options): PDO
    {
        try {
            return new PDO($source, $account, $account, $options);
        } catch (PDOException $error) {
            throw new Refused("cannot connect: {$error->getMessage()}");
        }
    }
}
