<?php

declare(strict_types=1);

namespace Deferred;

/** Serves the methods of a job, for a worker or for a test. @internal */
interface Host
{
    /** @param array<string, mixed> $head */
    public function send(?Job $job, string $type, array $head, string $body = ''): void;

    public function stopAsked(Job $job): bool;
}
