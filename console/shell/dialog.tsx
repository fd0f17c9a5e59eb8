/** The modal dialog of the console. */
import { Group, Modal } from '@mantine/core';
import { useWindowEvent } from '@mantine/hooks';
import { type ReactNode, useEffect, useLayoutEffect, useRef, useState } from 'react';
import { isOfComposition } from './composition.ts';
import { FIELD } from './recover-focus.ts';
import { RefusalPlace } from './refusal.tsx';

interface DialogProps {
  readonly title: string;
  readonly opened: boolean;
  readonly onClose: () => void;
  readonly children: ReactNode;
}

export function Dialog({ title, opened, onClose, children }: DialogProps) {
  const content = useRef<HTMLDivElement>(null);
  const [isTyped, setIsTyped] = useState(false);
  // Mantine closes all open dialogs at once.
  useWindowEvent('keydown', (event) => {
    const isMine = opened && content.current !== null && isOnTop(content.current);
    if (event.key !== 'Escape' || isOfComposition(event) || event.defaultPrevented || !isMine) return;
    // The dialog below hears the same event when this one is gone.
    event.preventDefault();
    onClose();
  });
  // Not centered: Close would move with the height of the content, which changes under the user's pointer.
  return (
    <Modal.Root opened={opened} onClose={onClose} closeOnEscape={false} closeOnClickOutside={!isTyped} size="lg">
      <Modal.Overlay backgroundOpacity={0.55} />
      <Modal.Content ref={content}>
        {/* Mantine's own header is a `header` element, which would be a second banner landmark. */}
        <Group justify="space-between" wrap="nowrap" p="lg" pb={0}>
          <Modal.Title fw={620} fz="lg" className="foreign">
            {title}
          </Modal.Title>
          <Modal.CloseButton aria-label="Close" />
        </Group>
        <DialogBody onTyped={setIsTyped}>{children}</DialogBody>
      </Modal.Content>
    </Modal.Root>
  );
}

/** Whether no dialog covers it. The one that was opened last is the last in the document. */
function isOnTop(content: HTMLElement): boolean {
  const last = [...document.querySelectorAll('[role=dialog]')].at(-1);
  return last !== undefined && content.contains(last);
}

interface DialogBodyProps {
  /** A click beside the dialog must not drop what the user typed. */
  readonly onTyped: (isTyped: boolean) => void;
  readonly children: ReactNode;
}

/** The dialog starts on its first field, otherwise on the button with `data-autofocus`, otherwise on Close. */
function DialogBody({ onTyped, children }: DialogBodyProps) {
  const body = useRef<HTMLDivElement>(null);
  const [refusals, setRefusals] = useState<HTMLElement | null>(null);
  useLayoutEffect(() => body.current?.querySelector(FIELD)?.setAttribute('data-autofocus', ''), []);
  useEffect(() => () => onTyped(false), [onTyped]);
  return (
    <Modal.Body p="lg" pt="md" ref={body} onInput={() => onTyped(true)}>
      <RefusalPlace value={refusals}>{children}</RefusalPlace>
      <div ref={setRefusals} />
    </Modal.Body>
  );
}
