/** The modal dialog of the console. */
import { Group, Modal } from '@mantine/core';
import { type ReactNode, useLayoutEffect, useRef } from 'react';

/** What a user fills in. */
const FIELD = ':is(input, select, textarea):not(:disabled, [readonly], [type=hidden])';

interface DialogProps {
  readonly title: string;
  readonly opened: boolean;
  readonly onClose: () => void;
  readonly children: ReactNode;
}

export function Dialog({ title, opened, onClose, children }: DialogProps) {
  return (
    <Modal.Root opened={opened} onClose={onClose} size="lg" centered>
      <Modal.Overlay backgroundOpacity={0.55} />
      <Modal.Content>
        {/* Mantine's own header is a `header` element, which would be a second banner landmark. */}
        <Group justify="space-between" wrap="nowrap" p="lg" pb={0}>
          <Modal.Title fw={620} fz="lg" className="foreign">
            {title}
          </Modal.Title>
          <Modal.CloseButton aria-label="Close" />
        </Group>
        <DialogBody>{children}</DialogBody>
      </Modal.Content>
    </Modal.Root>
  );
}

/** The dialog starts on its first field, otherwise on the button with `data-autofocus`, otherwise on Close. */
function DialogBody({ children }: { readonly children: ReactNode }) {
  const body = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => body.current?.querySelector(FIELD)?.setAttribute('data-autofocus', ''), []);
  return (
    <Modal.Body p="lg" pt="md" ref={body}>
      {children}
    </Modal.Body>
  );
}
