<?php

/** Exceptions by which a function says how its attempt ends. Any other exception means failed, with its trace. */

declare(strict_types=1);

namespace Deferred;

/** SIGTERM came: the time is up, the job is cancelled, or the worker stops. `catch (\Exception)` lets it pass. */
final class Stop extends \Error
{
}

/** The base of outcomes other than success. */
abstract class Verdict extends \Exception
{
    public const OUTCOME = 'failed';
    public readonly ?int $afterMs;

    public function __construct(string $error = '', string|int|float|null $span = null)
    {
        parent::__construct($error);
        $this->afterMs = $span === null ? null : milliseconds($span);
    }
}

/** The job failed for good and is not tried again. */
final class Dead extends Verdict
{
    public const OUTCOME = 'dead';
}

/** The job is not needed any more. */
final class Cancel extends Verdict
{
    public const OUTCOME = 'cancel';
}

/** An operator has to act first. The attempt does not count. */
final class Unready extends Verdict
{
    public const OUTCOME = 'unready';
}

/** The attempt failed. The next one starts after the span, or after the usual delay. */
class Later extends Verdict
{
    public const OUTCOME = 'later';

    public function __construct(string|int|float|null $span = null, string $error = '')
    {
        parent::__construct($error, $span);
    }
}

/** The job cannot run yet. The attempt does not count, and the next one starts after the span. */
final class Snooze extends Later
{
    public const OUTCOME = 'snooze';
}

/**
 * Another attempt of this job of a batch may run, so a step was not saved. Return it as the entry of the job. If the
 * function lets it pass, the attempts of the other jobs do not count, and these jobs are tried again soon.
 */
final class Gone extends Verdict
{
}
