<?php
// The lock program for PHP: one request per line on stdin, one answer per line on stdout, in the order of the requests
// (docs/client-protocol.md). It reports its own errors on stderr and in "error", and goes on.

declare(strict_types=1);

require_once 'Symfony/Component/Lock/autoload.php';
require_once 'Malkusch/Lock/autoload.php';
require_once __DIR__.'/outcomes.php';
require_once __DIR__.'/clients.php';
require_once __DIR__.'/stores.php';
require_once __DIR__.'/symfony.php';
require_once __DIR__.'/malkusch.php';

ini_set('display_errors', 'stderr'); // only answers may go to stdout

/** Each is opened with the request `open`, and has a method for each op; a method returns the value of `ok`. */
const OPENERS = [
    'symfony-redis' => [SymfonyLocks::class, 'open'],
    'symfony-redlock' => [SymfonyLocks::class, 'open'],
    'symfony-memcached' => [SymfonyLocks::class, 'open'],
    'symfony-pdo' => [SymfonyLocks::class, 'open'],
    'symfony-postgres' => [SymfonyLocks::class, 'open'],
    'malkusch-redis-mutex' => [MalkuschLocks::class, 'open'],
];
const OPS = ['acquire', 'release', 'still_valid', 'extend'];

function answer(?object &$opened, array $request): mixed
{
    $op = $request['op'] ?? null;
    if ('close' === $op) {
        return null;
    }
    if ('open' === $op) {
        if (null !== $opened) {
            throw new LogicException('open is the first request, and the only one of its kind');
        }
        $opener = OPENERS[$request['lock']] ?? throw new LogicException("unknown lock '{$request['lock']}'");
        $opened = $opener($request);

        return null;
    }
    if (null === $opened) {
        throw new LogicException("$op comes after open");
    }
    if (!in_array($op, OPS, true) || !method_exists($opened, $op)) {
        throw new LogicException("unknown op '$op'");
    }

    return $opened->$op($request);
}

$opened = null;
while (false !== $line = fgets(STDIN)) {
    $request = [];
    try {
        $request = json_decode($line, true, flags: JSON_THROW_ON_ERROR);
        $outcome = ['ok' => answer($opened, $request)];
    } catch (Refused $refusal) {
        $outcome = ['fail' => $refusal->getMessage()];
    } catch (Doubtful $doubt) {
        $outcome = ['info' => $doubt->getMessage()];
    } catch (Throwable $error) {
        fwrite(STDERR, "$error\n");
        $outcome = ['error' => $error->getMessage()];
    }
    $flags = JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE | JSON_UNESCAPED_UNICODE;
    fwrite(STDOUT, json_encode(['id' => $request['id'] ?? null] + $outcome, $flags)."\n");
    if ('close' === ($request['op'] ?? null)) {
        break;
    }
}
try {
    unset($opened); // Symfony's destructors give back what is still held
} catch (Throwable $error) {
    fwrite(STDERR, "$error\n");
}
