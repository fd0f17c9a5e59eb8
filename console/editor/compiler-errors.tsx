/** Lists the errors of the TypeScript compiler in the files of the editor. */
import { Alert, Text } from '@mantine/core';
import { FaultList, type OnPlace } from '../authoring/fault-list.tsx';
import type { Fault } from './faults.ts';

/** Further errors are only counted. */
const LISTED_MAX = 100;

interface CompilerErrorsProps {
  readonly errors: readonly Fault[];
  readonly onPlace: OnPlace;
}

/** Without the role `alert`: the list changes while the user types, and a screen reader would read it out each time. */
export function CompilerErrors({ errors, onPlace }: CompilerErrorsProps) {
  if (errors.length === 0) return null;
  return (
    <Alert
      component="section"
      role="region"
      color="red"
      variant="light"
      title={errors.length === 1 ? '1 compiler error' : `${errors.length} compiler errors`}
    >
      <FaultList faults={errors.slice(0, LISTED_MAX)} onPlace={onPlace} />
      {errors.length > LISTED_MAX ? <Text size="sm">And {errors.length - LISTED_MAX} more.</Text> : null}
    </Alert>
  );
}
