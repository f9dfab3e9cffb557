<?php

/** Loads the library without Composer: `require 'Deferred/autoload.php';`. */

declare(strict_types=1);

foreach (['functions', 'Stop', 'Job', 'Program', 'Testing'] as $file) {
    require_once __DIR__ . "/$file.php";
}
