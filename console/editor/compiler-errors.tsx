/** Lists what the TypeScript compiler finds wrong in the files of the editor. */
import { Alert, Text } from '@mantine/core';
import { FaultList, type OnPlace } from '../authoring/fault-list.tsx';
import type { Fault } from './faults.ts';

/** More are counted, not listed. */
const LISTED_MAX = 100;

interface CompilerErrorsProps {
  readonly errors: readonly Fault[];
  readonly onPlace: OnPlace;
}

/** No alert role: the list changes while the user types. */
export function CompilerErrors({ errors, onPlace }: CompilerErrorsProps) {
  if (errors.length === 0) return null;
  return (
    <Alert
      component="section"
      role="region"
      color="red"
      variant="light"
      title={errors.length === 1 ? '1 error of the compiler' : `${errors.length} errors of the compiler`}
    >
      <FaultList faults={errors.slice(0, LISTED_MAX)} onPlace={onPlace} />
      {errors.length > LISTED_MAX ? <Text size="sm">And {errors.length - LISTED_MAX} more.</Text> : null}
    </Alert>
  );
}
